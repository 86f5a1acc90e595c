"""The parts of the verdict: each is blamed for its own fault, and calibrated models rarely for any."""

from typing import Any

import numpy as np
import pytest

from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.judging import noise
from calibrant.evaluation.judging.measure import against_chance
from calibrant.evaluation.judging.noise import draw_noise
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.predictions import Kind, Predictions

KINDS: dict[Kind, list[str]] = {
    "binary": ["positive class"],
    "multiclass": ["top label", "classes"],
    "multilabel": ["labels"],
    "top_label": ["top label"],
}


def chance_of(predictions: Predictions, *, num_draws: int = 100, seed: int = 0):
    """Noise floors, diagrams, parts and classes."""
    procedure = Procedure(
        kind=predictions.kind, num_bins=15, num_resamples=2, num_draws=num_draws, level=0.95, seed=seed
    )
    names = tuple(str(k) for k in range(predictions.num_classes or 0))
    return against_chance(draw_noise(reduce_predictions(predictions, 15), procedure), names)


def test_as_many_draws_are_kept_as_the_level_needs(made, monkeypatch) -> None:
    """Of the noise of many labels, too, two beyond each end of an interval at 99.8 %."""
    monkeypatch.setattr(noise, "MOST_KEPT", 0)
    reduced = reduce_predictions(made("multilabel", 20, 2), 15)
    for level, kept in ((0.95, 400), (0.998, 2000)):
        procedure = Procedure(
            kind="multilabel", num_bins=15, num_resamples=2, num_draws=2100, level=level, seed=0
        )
        assert [len(each.sums) for each in draw_noise(reduced, procedure).drawn[""]] == [kept, kept]


def failing(predictions: Predictions, **options: Any) -> set[str]:
    """The names of the parts that do not hold."""
    return {part.name for part in chance_of(predictions, **options)[2] if not part.holds}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_parts(made, kind) -> None:
    """Adjusted p-values are Holm's: never below those of the parts alone, and equal for the largest."""
    parts = chance_of(made(kind, 400))[2]
    assert [part.name for part in parts] == KINDS[kind]
    assert all(part.adjusted_p >= part.p_value for part in parts)
    assert min(part.adjusted_p for part in parts) == min(1, len(parts) * min(p.p_value for p in parts))


def test_calibrated_models_rarely_fail() -> None:
    """Of 40 calibrated models of five classes at most six fail any part: more has a chance of 1 in 300."""
    rng = np.random.default_rng(0)
    failed = 0
    for seed in range(40):
        logits = 1.5 * rng.normal(size=(200, 5))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        failed += bool(failing(Predictions(logits=logits, labels=labels), seed=seed))
    assert failed <= 6


def test_only_the_classes_fail_where_only_they_are_off(confused) -> None:
    """Mass moved among the classes behind the winner: top label and slope hold, and the class is found."""
    nulls, _, parts, classes = chance_of(confused(3000, 0.3))
    assert {part.name for part in parts if not part.holds} == {"classes"}
    furthest = min(classes, key=lambda row: (row.adjusted_p, row.mean_probability - row.prevalence))
    assert furthest.name == "0"
    assert furthest.mean_probability < furthest.prevalence
    null = next(null for null in nulls if null.metric == "classwise_ece")
    assert null.p_value == 1 / 101


def test_weights_count_as_copies(confused) -> None:
    honest, off = confused(2000, 0.0), confused(2000, 0.5, seed=1)
    both = Predictions(
        logits=np.concatenate([honest.scores.numpy(), off.scores.numpy()]),
        labels=np.concatenate([honest.labels, off.labels]),
        weights=np.repeat([1.0, 0.0], 2000),
    )
    assert failing(both) == set()
    assert "classes" in failing(off)


def test_one_class_that_is_too_extreme_is_found() -> None:
    rng = np.random.default_rng(0)
    logits = 1.6 * rng.normal(size=(3000, 10))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    true = probs.copy()
    true[:, 3] = 0.6 * probs[:, 3] + 0.4 * probs[:, 3].mean()
    others = np.delete(np.arange(10), 3)
    true[:, others] *= ((1 - true[:, 3]) / (1 - probs[:, 3]))[:, None]
    for truth, holds in ((probs, True), (true, False)):
        labels = (rng.random(3000)[:, None] > np.cumsum(truth, axis=1)).sum(axis=1).clip(0, 9)
        parts = chance_of(Predictions(probs=probs, labels=labels), num_draws=200)[2]
        assert {part.name: part.holds for part in parts}["classes"] is holds
