"""Several models side by side."""

import inspect
import json
import re
from typing import Any

import numpy as np
import pytest

from calibrant import InputError
from calibrant.cli.main import app
from calibrant.evaluation import check, compare, evaluate
from calibrant.predictions import Predictions

QUICK: dict[str, Any] = {"bootstrap": 200, "null_draws": 50}


def test_the_same_samples_are_paired(made) -> None:
    """Two statements on one sample: differences are paired, far narrower than apart, and zero where equal."""
    honest, sharp = made("multiclass", 800), made("multiclass", 800, sharpness=1.5)
    found = compare([("honest", honest), ("sharp", sharp)], **QUICK)
    assert found.paired
    assert found.models[0].difference == {}
    difference = found.models[1].difference
    assert difference["accuracy"].low == difference["accuracy"].high == 0
    width = difference["nll"].high - difference["nll"].low
    apart = np.hypot(*(each.metrics["nll"].high - each.metrics["nll"].low for each in found.models))
    assert width < apart / 2
    assert difference["nll"].low > 0
    assert "Lowest calibration error: honest with " in found.verdict
    assert "Lowest log loss: honest with " in found.verdict
    assert "beyond noise" in found.verdict


def test_other_samples_are_not_paired(made) -> None:
    """With other labels, or another number of them, differences are wide as if judged apart."""
    found = compare([("a", made("binary", 500)), ("b", made("binary", 500, seed=1))], **QUICK)
    assert not found.paired
    difference = found.models[1].difference["accuracy"]
    apart = np.hypot(*(each.metrics["accuracy"].high - each.metrics["accuracy"].low for each in found.models))
    assert difference.high - difference.low == pytest.approx(
        apart, rel=0.25
    )  # two quantiles of 200 resamples
    assert "noise could explain the difference" in found.verdict
    assert not compare([("a", made("binary", 500)), ("b", made("binary", 400))], **QUICK).paired
    # Different numbers of classes are compared all the same.
    found = compare([("a", made("multiclass", 60, 3)), ("b", made("multiclass", 60, 5))], **QUICK)
    assert found.notes == ("The models have different numbers of classes (a 3, b 5).",)


def test_a_model_with_clearly_more_error_on_other_samples_is_worse(made) -> None:
    """Noise explains neither how much worse it is, nor, of few samples, an error that a good model shows."""
    good, bad = made("multiclass", 1500), made("multiclass", 1500, sharpness=3.0, seed=1)
    found = compare([("good", good), ("bad", bad), ("few", made("multiclass", 60, seed=2))], **QUICK)
    assert not found.paired
    said = found.verdict.partition("Lowest calibration error: good with ")[2].partition("Lowest log loss")[0]
    assert "noise could explain the difference to few with" in said
    assert "bad" not in said


def test_errors_of_one_sample_move_together(made) -> None:
    """So the difference of two errors that are both beyond chance is better known than of two samples."""
    models = [(str(each), made("multiclass", 1500, sharpness=each)) for each in (2.5, 3.0)]
    found = compare(models, **QUICK)
    difference = found.models[1].difference["ece"]
    apart = np.hypot(*(each.metrics["ece"].high - each.metrics["ece"].low for each in found.models))
    assert all(each.metrics["ece"].low > 0 for each in found.models)
    assert difference.high - difference.low < apart


def test_the_same_setting_has_the_same_default_everywhere() -> None:
    """Evaluations, comparisons and checks, and their commands, draw and judge alike unless they are told."""
    defaults: dict[str, set[Any]] = {}
    for function in (evaluate, compare, check, *(command.callback for command in app.registered_commands)):
        if function.__name__ in {"evaluate", "compare", "check"}:
            for name, parameter in inspect.signature(function).parameters.items():
                defaults.setdefault(name, set()).add(parameter.default)
    assert defaults["bootstrap"] == defaults["null_draws"] == {1000}
    for name in ("level", "seed", "num_bins", "intervals"):
        assert len(defaults[name]) == 1, name


def test_top_label_models_are_compared_by_what_they_have(made) -> None:
    models = [("a", made("top_label", 900)), ("b", made("top_label", 900, sharpness=3))]
    found = compare(models, **QUICK)
    assert "log loss: a with " in found.verdict
    assert found.models[1].difference["nll"].low > 0
    assert found.models[1].difference["classwise_ece"].reason is not None
    assert "Lowest calibration error: a with " in found.verdict


def test_top_label_samples_that_are_evidently_the_same_are_paired(made) -> None:
    """By their true classes where both know them, else by the rows that are right, unless by chance."""
    first, sharper = made("top_label", 900), made("top_label", 900, sharpness=3)
    found = compare([("a", first), ("b", sharper)], **QUICK)
    accuracy = found.models[1].difference["accuracy"]
    assert (found.paired, accuracy.low, accuracy.high) == (True, 0, 0)
    other = first.correct.clone()
    other[:2] = ~other[:2]
    changed = Predictions(confidence=first.confidence, correct=other)
    assert not compare([("a", first), ("b", changed)], **QUICK).paired
    classes = np.arange(900) % 7
    named, renamed, foreign = (
        Predictions(confidence=first.confidence, correct=right, labels=labels)
        for right, labels in ((first.correct, classes), (other, classes), (first.correct, classes[::-1]))
    )
    assert compare([("a", named), ("b", renamed)], **QUICK).paired
    assert not compare([("a", named), ("b", foreign)], **QUICK).paired
    weighted = Predictions(confidence=first.confidence, correct=first.correct, weights=1.0 + classes)
    assert not compare([("a", first), ("b", weighted)], **QUICK).paired
    few = Predictions(confidence=first.confidence, correct=np.arange(900) != 5)  # 900 patterns have one miss
    assert not compare([("a", few), ("b", few)], **QUICK).paired


def test_too_few_resamples_are_noted(made) -> None:
    """Below a hundred, or where less than one lies beyond each end, the intervals mean nothing."""
    models = [("a", made("binary", 50)), ("b", made("binary", 50, sharpness=2))]
    note = "2 resamples are too few for intervals. Use 100 or more."
    assert note in compare(models, bootstrap=2, null_draws=50).notes
    assert note in evaluate(models[0][1], bootstrap=2, null_draws=200, calibrators=[]).notes
    far_out = compare(models, bootstrap=1000, null_draws=50, level=0.999).notes
    assert far_out[-1] == "1,000 resamples are too few for intervals. Use 2,000 or more."
    assert "With only 50 null draws" in far_out[-2]
    assert not any("resamples" in note for note in compare(models, **QUICK).notes)


def test_it_is_deterministic_and_json(made) -> None:
    models = [("a", made("binary", 200)), ("b", made("binary", 200, sharpness=2)), ("c", made("binary", 90))]
    found = compare(models, **QUICK)
    assert found.to_json() == compare(models, **QUICK).to_json()

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in JSON")

    json.loads(found.to_json(), parse_constant=refuse)
    # One stage per model, then done.
    told: list[tuple[str, float]] = []
    models = [("a", made("binary", 50)), ("b", made("binary", 50))]
    compare(models, progress=lambda stage, share: told.append((stage, share)), **QUICK)
    assert told == [("evaluating a", 0.0), ("evaluating b", 0.5), ("done", 1.0)]


def named(predictions: Predictions, *names: str) -> Predictions:
    return Predictions(logits=predictions.scores, labels=predictions.labels, class_names=names)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("cat", "fox", "dog"), r"a and c must have their classes in the same order; class 1 is 'dog' in a"),
        (("cat", "dog", "owl"), r"a and c must have the same classes; 'fox' is one of a only"),
        (("cat", "cat", "dog"), r"a and c must have the same classes; 'cat' is one of c only"),
        (("cat", "dog", "fox", "owl"), r"a and c must have the same classes; 'owl' is one of c only"),
    ],
)
def test_classes_must_be_the_same_in_the_same_order(made, names, words) -> None:
    first, bare = made("multiclass", 60, 3), made("multiclass", 60, 3, sharpness=2)
    other = named(made("multiclass", 60, len(names)), *names)
    given = named(first, "cat", "dog", "fox")
    with pytest.raises(InputError, match=words):
        compare([("a", given), ("b", bare), ("c", other)], **QUICK)
    with pytest.raises(InputError, match=words.replace("a and c", "the predictions and the baseline")[:70]):
        check(given, baseline=other, bootstrap=20)
    assert compare([("a", given), ("b", bare), ("c", named(bare, "cat", "dog", "fox"))], **QUICK).paired


def test_nobody_wins_a_tie(made) -> None:
    """Equal models are called equal, whoever comes first; a third that is worse loses to both."""
    honest, sharp = made("multiclass", 800), made("multiclass", 800, sharpness=2)
    found = compare([("a", honest), ("b", honest)], **QUICK)
    assert found.verdict.startswith("Equal calibration error: a with 0.0")
    assert "Equal log loss: a with " in found.verdict
    assert "Lowest" not in found.verdict
    error = found.models[1].difference["ece"]
    assert (error.value, error.low, error.high) == (0.0, 0.0, 0.0)
    found = compare([("c", sharp), ("a", honest), ("b", honest)], **QUICK)
    assert re.search(
        r"Lowest calibration error: a with .*? and b with .*?, equal, beyond noise\.", found.verdict
    )


def test_few_samples_alone_make_no_model_worse(made) -> None:
    """On samples of their own a small and a large file of one model differ by what chance gives."""
    many = made("binary", 4000, seed=0)
    for seed in range(1, 4):
        verdict = compare([("many", many), ("few", made("binary", 60, seed=seed))], **QUICK).verdict
        assert (
            "Lowest calibration error of the positive class: many" not in verdict or "noise could" in verdict
        )
    sharp = made("binary", 800, sharpness=3.0, seed=9)
    verdict = compare([("many", many), ("sharp", sharp)], **QUICK).verdict
    assert "Lowest calibration error of the positive class: many" in verdict
    assert verdict.split(".")[0].count("noise could") == 0


def test_samples_that_an_evaluation_would_fit_on_are_told(monkeypatch) -> None:
    """Of very large files without a split all samples are judged, and an evaluation judges half."""
    monkeypatch.setattr("calibrant.evaluation.fitting.split.MOST_CROSS_FITTED", 999)
    rng = np.random.default_rng(0)
    sure, right = rng.uniform(0.5, 1, 1000), rng.random(1000) < 0.7
    few = Predictions(confidence=sure[:999], correct=right[:999])
    split = Predictions(confidence=sure, correct=right, split=np.arange(1000) % 2)
    whole = Predictions(confidence=sure, correct=right)
    found = compare([("few", few), ("split", split), ("whole", whole)], bootstrap=100, null_draws=2)
    (said,) = (note for note in found.notes if "no split" in note)
    assert said.startswith("All samples of whole are compared, because there is no split.")
