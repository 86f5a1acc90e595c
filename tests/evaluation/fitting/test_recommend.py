"""How an arm is chosen: by NLL cross-validated on calibration samples, the simpler where noise decides."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.evaluation.fitting.templates import Recommendation, Template, recommend, templates
from calibrant.predictions import Predictions


def chosen(predictions: Predictions, *names: str) -> Recommendation:
    found: list[Template] = templates(names, predictions.kind)
    return recommend(found, predictions, 0)


def test_the_simplest_within_one_standard_error_wins(made) -> None:
    """Temperature where the model is too sharp, Platt where it is shifted too, nothing where it is honest."""
    options = ("temperature", "platt")
    assert chosen(made("binary", 3000), *options).name == "uncalibrated"
    assert chosen(made("binary", 3000, sharpness=2), *options).name == "temperature"
    assert chosen(made("binary", 3000, sharpness=2, shift=1), *options).name == "platt"


def test_a_gain_within_noise_changes_nothing(made) -> None:
    """Honest models of which a calibrator happens to have the best NLL, by less than a standard error."""
    close = 0
    for seed in range(12):
        found = chosen(made("binary", 300, seed=seed), "temperature", "platt")
        first = found.choice.candidates[0]
        if 0 < first.behind <= first.standard_error:
            close += 1
            assert found.name == "uncalibrated"
    assert close > 0


def test_candidates_tell_why(made) -> None:
    """The best is behind by nothing, the chosen by at most one standard error, all simpler ones by more."""
    found = chosen(made("multiclass", 1000, sharpness=1.5), "temperature", "focal-temperature")
    names = [each.name for each in found.choice.candidates]
    assert names == ["uncalibrated", "temperature", "focal-temperature"]
    assert min(each.behind for each in found.choice.candidates) == 0
    place = names.index(found.name)
    assert found.choice.candidates[place].behind <= found.choice.candidates[place].standard_error
    assert all(each.behind > each.standard_error for each in found.choice.candidates[:place])


def test_a_probability_of_zero_does_not_decide_alone(made) -> None:
    """One certain mistake among honest predictions counts 27.6 nats in every arm, and no NLL is infinite."""
    honest = made("multiclass", 2000)
    probs = honest.probs.clone()
    probs[0] = 0.0
    probs[0, (honest.labels[0] + 1) % 4] = 1.0
    found = chosen(Predictions(probs=probs, labels=honest.labels), "temperature")
    assert all(np.isfinite(each.nll) for each in found.choice.candidates)
    extra = chosen(honest, "temperature").choice.candidates[0]
    assert found.choice.candidates[0].nll == pytest.approx(
        extra.nll + 27.6 / 2000, abs=2e-3
    )  # less that row's NLL


def test_large_calibration_sets_are_sampled(made, monkeypatch) -> None:
    monkeypatch.setattr("calibrant.evaluation.fitting.templates.MOST_ELEMENTS", 400)
    found = chosen(made("multiclass", 1000), "temperature")
    assert found.choice.num_samples == 100
    assert found == chosen(made("multiclass", 1000), "temperature")
    # Samples of weight zero do not matter to the NLL.
    predictions = made("binary", 400)
    weights = (np.arange(400) % 2).astype(float)
    weighted = Predictions(logits=predictions.scores, labels=predictions.labels, weights=weights)
    half = predictions.rows(np.arange(400) % 2 == 1)
    assert chosen(weighted, "temperature").choice.candidates[0].nll == pytest.approx(
        chosen(half, "temperature").choice.candidates[0].nll, abs=1e-12
    )


@pytest.mark.parametrize("most", [500, 1 << 20], ids=["halves", "folds"])
@pytest.mark.parametrize("kind", ["classes", "clusters", "two columns"])
def test_the_order_of_the_columns_changes_nothing(kind, most, monkeypatch) -> None:
    """With the columns, labels and names in another order: the same choice, and the same numbers."""
    monkeypatch.setattr("calibrant.evaluation.fitting.split.MOST_CROSS_FITTED", most)
    rng = np.random.default_rng(0)
    num_classes = 2 if kind == "two columns" else 4
    true = rng.normal(size=(300, num_classes))
    labels, logits = (
        (true + rng.gumbel(size=true.shape)).argmax(axis=1),
        1.6 * true - [0.5, *[0] * (num_classes - 1)],
    )
    names, order = np.array(["lynx", "owl", "bear", "hare"][:num_classes]), np.array([2, 0, 3, 1])
    order = order[order < num_classes][::-1] if kind == "two columns" else order
    options: dict[str, Any] = {"bootstrap": 40, "null_draws": 40}
    if kind == "clusters":
        options["cluster"] = [str(k // 2) for k in range(300)]
    if kind == "two columns":
        options["positive_class"] = "owl"
    first, second = (
        calibrant.evaluate(
            Predictions(logits=logits[:, k], labels=k.argsort()[labels], class_names=names[k].tolist()),
            **options,
        )
        for k in (np.arange(num_classes), order)
    )
    assert first.verdict.recommended == second.verdict.recommended
    mine, theirs = (dict(facts(json.loads(each.to_json()))) for each in (first, second))
    numbers = {path for path, value in mine.items() if isinstance(value, float)}
    ends = {path for path in numbers if path.endswith((".low", ".high"))}  # a search enlarges rounding
    for paths, least in ((numbers - ends, 1e-12), (ends, 1e-7)):
        assert {path: mine[path] for path in paths} == pytest.approx(
            {path: theirs.pop(path) for path in paths}, rel=1e-9, abs=least
        )
    assert {path: mine[path] for path in mine if path not in numbers} == theirs


def facts(found: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every entry of JSON by its path, classes by name; steps of fits and digits of their end left out."""
    if isinstance(found, list):
        found = {each.get("name", k) if isinstance(each, dict) else k: each for k, each in enumerate(found)}
    if not isinstance(found, dict):
        yield path, found
    else:
        for key, each in found.items():
            if key not in {"class_names", "message", "steps"}:
                yield from facts(each, f"{path}.{key}")


def test_either_of_two_classes_may_be_the_event(made) -> None:
    """With the other class as the event, folds and choice are the same; also of 150 and 150 samples."""
    given = made("binary", 300, sharpness=2, shift=1)
    for rows in (
        np.arange(300),
        np.concatenate([np.flatnonzero(given.labels.numpy() == k)[:100] for k in (0, 1)]),
    ):
        some = given.rows(rows)
        other = Predictions(logits=-some.scores, labels=1 - some.labels)
        mine, theirs = (chosen(each, "temperature", "platt") for each in (some, other))
        assert (mine.name, mine.choice.folds) == (theirs.name, theirs.choice.folds)
        np.testing.assert_array_equal(mine.folds, theirs.folds)
        losses = [[each.nll for each in found.choice.candidates] for found in (mine, theirs)]
        np.testing.assert_allclose(*losses, rtol=1e-9)
