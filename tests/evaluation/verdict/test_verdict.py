"""The verdict: planted faults are named, honest models are not blamed, and the words fit the numbers."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from calibrant.evaluation import Evaluation, evaluate
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.fitting.templates import Recommendation
from calibrant.evaluation.judging.measure import measure
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.phrases import p_number, p_value, part_p_value
from calibrant.evaluation.result import Arm, Choice, Direction, Estimate, NullError, Part, Repair, Verdict
from calibrant.evaluation.verdict.case import Case
from calibrant.evaluation.verdict.verdict import reach_verdict
from calibrant.predictions import Kind, Predictions

Maker = Callable[..., Predictions]
KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel", "top_label")
QUICK: dict[str, Any] = {"bootstrap": 100, "null_draws": 100}
JARGON = (
    "bootstrap",
    "percentile",
    "null",
    "confidence interval",
    "Wilson",
    "Brier",
    "NLL",
    "ECE",
    "nan",
    "None",
)


FIRST_WORDS: dict[Direction, tuple[str, ...]] = {
    "over-confident": ("Overconfident",),
    "under-confident": ("Underconfident",),
    "over-predicting": ("Probabilities are too high", "Label probabilities are too high"),
    "under-predicting": ("Probabilities are too low", "Label probabilities are too low"),
    "miscalibrated": ("Partly miscalibrated",),
    "calibrated in part": ("Partly miscalibrated",),
    "calibrated": ("Calibrated: ", "Nearly calibrated: "),
    "undecided": ("Too few samples to tell: ", "Unclear: "),
}


def judged(predictions: Predictions, **options: Any) -> Evaluation:
    """Evaluated with few resamples and the cheapest calibrator that can help."""
    calibrators = ["temperature", "platt"][: options.pop("most", 2)]
    if predictions.kind == "multiclass":
        calibrators = ["temperature"]
    return evaluate(predictions, calibrators=calibrators, **QUICK, **options)


def in_short(verdict: Verdict) -> None:
    """At most fifteen words that start with what is wrong, and lines without intervals, sentences each."""
    short = verdict.short
    assert len(short.split()) <= 15, short
    assert short.startswith(FIRST_WORDS[verdict.direction]), short
    assert short.startswith("Calibrated") == (bool(verdict.checks) and verdict.direction == "calibrated")
    assert " %" not in short + verdict.line
    assert short.endswith(".")
    assert verdict.line.endswith(".")
    assert not re.search(r"\([^=()]* to [^()]*\)", verdict.line)


@pytest.mark.parametrize("kind", KINDS)
def test_planted_over_and_under_confidence_are_named(made, kind) -> None:
    """Logits at a third of their size: under-confident; three times too large: a temperature repairs it."""
    under = made(kind, 3000, sharpness=0.33, split=np.arange(3000) % 2)
    assert evaluate(under, calibrators=[], **QUICK).verdict.direction == "under-confident"
    found = judged(made(kind, 3000, sharpness=3, split=np.arange(3000) % 2))
    verdict = found.verdict
    assert verdict.direction == "over-confident"
    assert verdict.headline.startswith("Overconfident: ")
    assert "The error is real" in verdict.sentences[0]
    assert verdict.recommended == "temperature"
    assert "Best fix: temperature scaling (" in verdict.line
    assert "ECE falls from" in verdict.line
    assert found.arm("temperature").metrics["nll"].value < found.arms[0].metrics["nll"].value


@pytest.mark.parametrize("kind", KINDS)
def test_honest_models_are_left_alone(made, kind) -> None:
    """Of five honest models of each kind, four at least are called calibrated and none over-confident."""
    honest = (made(kind, 3000, seed=seed, split=np.arange(3000) % 2) for seed in range(5))
    directions = [evaluate(each, calibrators=[], **QUICK).verdict.direction for each in honest]
    assert directions.count("calibrated") >= 4
    assert not {"over-confident", "under-confident"} & set(directions)


def test_a_calibrated_headline_says_what_chance_gives(made) -> None:
    """No error above noise, with the noise floor next to the error; every test passes."""
    honest = made("multiclass", 3000, split=np.arange(3000) % 2)
    said = evaluate(honest, calibrators=[], bootstrap=20, null_draws=200).verdict.sentences[-1]
    assert said == "No calibrator was tried."
    found = judged(honest)
    assert found.verdict.sentences[-1] == "Nothing needs to be done."
    assert found.verdict.headline.startswith("Calibrated: no test finds an error on 1,500 samples.")
    assert re.match(r"ECE 0\.\d+, noise floor 0\.\d+\.", found.verdict.line)
    assert all(check.passed for check in found.verdict.checks)


def test_calibrated_means_all_of_it(confused) -> None:
    """Its winners are as likely as it says, its classes are not: calibrated in part, and a class is named."""
    names = ["River", "Forest", "Road", "Sea", "Town"]
    verdict = judged(confused(4000, seed=1, class_names=names, split=np.arange(4000) % 2)).verdict
    assert verdict.direction == "calibrated in part"
    assert verdict.short == "Partly miscalibrated: overall confidence is fine, class probabilities are not."
    assert [check.passed for check in verdict.checks] == [True, False]
    assert "most of all River: " in verdict.checks[1].text
    assert "classwise_ece" in verdict.checks[1].metrics
    assert "lasswise ECE " in verdict.line
    assert verdict.sentences[0].startswith("Classwise ECE is 0.")
    assert "The error is real" in verdict.sentences[0]
    assert verdict.sentences[1].startswith("ECE is 0.")
    assert "Worst: River gets " in verdict.sentences[2]
    assert "overall confidence passes (p = " in verdict.sentences[3]
    assert "class probabilities fail (p ≤ " in verdict.sentences[3]


def test_few_samples_that_show_a_fault_of_the_classes(confused) -> None:
    """Their classes are off, and of their top label they cannot tell: no part of that is calibrated."""
    verdict = judged(confused(350)).verdict
    assert verdict.direction == "miscalibrated"
    assert (
        verdict.short == "Partly miscalibrated: class probabilities are off, overall confidence is unclear."
    )
    assert "most of all class " in verdict.checks[1].text
    in_short(verdict)


def test_a_slope_alone_is_told() -> None:
    """A little too extreme, and right on average: the slope tells what the calibration error cannot."""
    rng = np.random.default_rng(4)

    def drawn(num_samples: int) -> Predictions:
        true = 2.5 * rng.normal(size=num_samples)
        labels = rng.random(num_samples) < 1 / (1 + np.exp(-true))
        sure = 1 / (1 + np.exp(-np.maximum(np.abs(true) / 0.8 - 0.33, 0.01)))
        return Predictions(confidence=sure, correct=labels == (true > 0))

    found = judged(drawn(4000), calibration=drawn(19))  # too few to choose a repair by
    assert not found.arms[0].parts[0].holds
    assert found.arms[0].metrics["ece"].low == 0
    assert found.verdict.direction == "miscalibrated"
    assert found.verdict.sentences[0].endswith("), but the calibration test fails.")
    assert found.verdict.sentences[1].startswith("The calibration slope is 0.")
    assert "too extreme (calibration slope 0." in found.verdict.checks[0].text
    assert "slope" in found.verdict.checks[0].metrics


def test_few_samples_stay_undecided(made) -> None:
    """60 honest samples could hide a gap of 5 points; five right answers at 100 % prove nothing."""
    certain = judged(Predictions(confidence=np.ones(5), correct=np.ones(5)))
    assert certain.verdict.direction == "undecided"
    found = judged(made("multiclass", 60, seed=1))
    assert found.verdict.direction == "undecided"
    assert found.verdict.headline.startswith("Too few samples to tell: ")
    assert found.verdict.short == "Too few samples to tell: 60 could hide a 5-point error."
    assert any(
        "an average error of 5 points could have been missed" in each for each in found.verdict.sentences
    )


def test_errors_that_cancel_are_miscalibration(made) -> None:
    """Too sure where it is sure, too modest where it is not: right on average, and yet not calibrated."""
    rng = np.random.default_rng(0)
    confidences = np.repeat([0.6, 0.9], 2000)
    correct = rng.random(4000) < np.repeat([0.7, 0.8], 2000)
    found = judged(Predictions(confidence=confidences, correct=correct))
    assert found.verdict.direction == "miscalibrated"
    assert found.verdict.short == "Partly miscalibrated: confidence is right on average, but too extreme."
    found_there = found.verdict.checks[0].text
    assert "right on average, but too extreme (calibration slope 0." in found_there
    assert re.search(r"below 1: overconfident\); between .* predicted, \d\d\.\d% actual\)$", found_there)
    in_short(found.verdict)


@pytest.mark.parametrize("kind", ["binary", "multilabel"])
def test_a_prior_shift_is_no_matter_of_temperature(made, kind) -> None:
    predictions = made(kind, 3000, shift=2.0, split=np.arange(3000) % 2)
    found = judged(predictions)
    verdict = found.verdict
    assert verdict.direction == "over-predicting"
    assert verdict.recommended == "platt"
    in_short(verdict)
    assert "Temperature scaling only changes the ECE from" in " ".join(verdict.sentences)
    assert re.search(r" too high: \d\d\.\d% on average, actual rate \d\d\.\d%\.$", verdict.headline)
    assert {"mean_probability", "prevalence"} <= set(verdict.checks[0].metrics)
    assert "Best fix: Platt scaling (" in verdict.line
    only = judged(predictions, most=1)
    assert "Not fully repaired: " in only.verdict.line
    assert re.search(r"still too high on average \(\d\d\.\d%, actual \d\d\.\d%\)", only.verdict.line)
    assert " Apply the fix: it removes " in only.verdict.line
    assert only.verdict.line.endswith(" To accept the rest, set a tolerance.")
    assert "Fitted on 1,500 calibration samples, measured on 1,500 others." in only.verdict.line
    assert "Not fully repaired: " in " ".join(only.verdict.sentences)


def test_a_multilabel_verdict_counts_labels(made) -> None:
    honest = made("multilabel", 3000, 4, class_names=["a", "b", "c", "d"])
    logits = np.add(honest.scores.numpy(), [0.0, 2.0, 0.0, -0.7])
    given = Predictions(logits=logits, labels=honest.labels, class_names=["a", "b", "c", "d"])
    verdict = judged(given).verdict
    assert verdict.sentences[1].startswith("1 of 4 labels is predicted too often and 1 too rarely")
    assert "Worst: b gets " in verdict.sentences[1]


def test_a_repair_that_harms_is_called_that(made) -> None:
    """Fitted on samples of another world, temperature scaling harms on the test samples: not recommended."""
    elsewhere = made("multiclass", 2000, sharpness=3, seed=1)
    verdict = judged(made("multiclass", 2000), calibration=elsewhere).verdict
    assert verdict.recommended == "uncalibrated"
    said = " ".join(verdict.sentences)
    assert (
        "Temperature scaling was chosen on the calibration samples, but is clearly worse on the test" in said
    )
    assert "so it is not recommended; the two splits differ." in said
    assert "Chosen on 2,000 calibration samples: temperature scaling" in said
    assert "calibrant fit" not in said


def test_one_class_to_fit_on_recommends_nothing(made) -> None:
    """Calibration labels all alike, the test normal: what errs on the test samples is not recommended."""
    predictions = made("binary", 800)
    split = np.arange(800) % 2
    labels = np.where(split == 0, 1, predictions.labels)
    logits = np.where(split == 0, predictions.scores.abs(), predictions.scores)
    found = judged(Predictions(logits=logits, labels=labels, split=split))
    assert found.verdict.recommended == "uncalibrated"
    assert found.verdict.reason in found.verdict.sentences
    assert found.verdict.reason == (
        "No calibrator is recommended: the calibration samples contain only one class."
    )


def test_p_values_are_written_as_bounds_where_they_are() -> None:
    """No draw was as far off: more draws could lower it. A tail of the normal distribution is cut."""
    values: dict[str, Any] = {"metric": "ece", "mean": 0.01, "upper": 0.02, "num_draws": 1000}
    floor, above = (NullError(p_value=k / 1001, **values) for k in (1, 2))
    assert (p_value(floor), p_number(floor)) == ("p ≤ 0.001", "≤ 0.001")
    assert (p_value(above), p_number(above)) == ("p = 0.002", "0.002")
    cases = ((0.001, 0.003, 999), (0.02, 0.04, 999), (1e-9, 3e-9, None))
    parts = [Part(name="classes", holds=True, p_value=p, adjusted_p=q, num_draws=n) for p, q, n in cases]
    assert [part_p_value(each) for each in parts] == ["p ≤ 0.003", "p = 0.04", "p < 0.0001"]


def test_the_verdict_says_as_data_what_its_sentences_say(made) -> None:
    """Reason and condition are sentences, or parts of them; what to fit on what is data."""
    verdict = judged(made("multiclass", 2000, sharpness=3, split=np.arange(2000) % 2)).verdict
    assert verdict.reason in verdict.sentences
    assert "cross-validated log loss" in (verdict.reason or "")
    assert verdict.repair == Repair(
        method="temperature", file=None, all_rows=False, format="npz", space="logits"
    )
    assert (verdict.condition, verdict.caution) == (None, None)
    honest = judged(made("multiclass", 2000, split=np.arange(2000) % 2)).verdict
    assert (honest.recommended, honest.repair, honest.condition) == ("uncalibrated", None, None)
    refuted = judged(made("multiclass"), calibration=made("multiclass", 2000, sharpness=3, seed=1)).verdict
    assert "is not recommended" in (refuted.reason or "")
    assert refuted.reason in refuted.sentences
    few = judged(made("multiclass", 604, sharpness=4, split=np.arange(604) >= 4)).verdict
    assert (few.reason, few.repair) == (few.sentences[-1], None)
    said = "No calibrator is recommended: 4 calibration samples are too few to choose one."
    assert said == few.sentences[-1]  # not that no calibrator is better
    assert said in few.line
    assert "No calibrator tried" not in few.line


@pytest.mark.parametrize(
    ("sign", "name", "other", "threshold"),
    [(1, "positive", "negative", "lower"), (-1, "negative", "positive", "higher")],
)
def test_accuracy_bought_by_calling_a_class_no_more_is_called_that(sign, name, other, threshold) -> None:
    """A rare class stated far too often: the repair moves it below one half, and the accuracy up."""
    rng = np.random.default_rng(1)
    true = rng.normal(size=4000) - 4
    happened = rng.random(4000) < 1 / (1 + np.exp(-true))
    labels = (happened if sign == 1 else ~happened).astype(int)
    found = judged(Predictions(logits=sign * (true + 4), labels=labels))
    verdict = found.verdict
    assert verdict.recommended == "platt"
    assert any(" and accuracy rises from " in sentence for sentence in verdict.sentences)
    assert verdict.caution in verdict.sentences
    caution = verdict.caution or ""
    assert caution.startswith(f"Choose a {threshold} threshold: at 0.5, Platt scaling finds only ")
    assert re.search(rf" of the {name} samples \(\d\d\.\d% before\)\. ", caution)
    assert re.search(rf"Always predicting {other} has an accuracy of 9\d\.\d%\.$", caution)
    (same,) = re.findall(r"A threshold of (0\.\d+) decides as 0\.5 did before\.", caution)
    fitted = found.arm("platt").calibrator
    assert float(same) == pytest.approx(float(fitted.predict_proba(torch.zeros(1))), abs=1e-3)
    assert "ccuracy" not in verdict.line


def test_a_binary_verdict_is_about_the_event(made) -> None:
    verdict = judged(made("binary", 3000, sharpness=3)).verdict
    assert verdict.sentences[0].startswith("ECE is 0.")
    assert verdict.sentences[1].startswith("The calibration slope is 0.")
    assert not any("top label" in sentence for sentence in verdict.sentences)
    assert (verdict.recommended, verdict.caution) == ("temperature", None)
    assert any(sentence.endswith("accuracy doesn't change.") for sentence in verdict.sentences)


def test_the_calibration_error_never_chooses() -> None:
    """An arm with the smaller calibration error and the larger NLL is not recommended.

    A temperature fitted by the ECE on a model whose errors differ by class lowers that error but not the NLL.
    """
    rng = np.random.default_rng(3)
    logits = 3 * rng.normal(size=(1500, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    predictions = Predictions(logits=logits, labels=labels, split=np.arange(1500) % 2)
    found = evaluate(predictions, calibrators=["temperature", 'temperature(objective="ece")'], **QUICK)
    by_ece = found.arm('temperature(objective="ece")')
    assert found.verdict.recommended != by_ece.name


@pytest.mark.parametrize(("kind", "label"), [("multiclass", ""), ("multilabel", "label 3: ")])
def test_a_parameter_on_a_bound_is_noted(made, kind, label) -> None:
    """Labels that are all right leave the temperature at its lowest; the choice says so, label by label."""
    logits = made(kind, 300).scores
    labels = logits.argmax(dim=1) if kind == "multiclass" else (logits > 0).int()
    verdict = judged(Predictions(logits=logits, labels=labels), most=1).verdict
    assert f" Note: {label}the best temperature is a bound of the search." in verdict.reason


@pytest.mark.parametrize("kind", KINDS)
def test_the_headline_is_one_plain_sentence(made, kind) -> None:
    for sharpness, num_samples in ((1.0, 40), (3.0, 1200), (1.0, 1200)):
        verdict = judged(made(kind, num_samples, sharpness=sharpness)).verdict
        headline = verdict.headline
        in_short(verdict)
        assert not [word for word in JARGON if word in headline], headline
        assert headline.endswith(".")
        assert ". " not in headline
        if verdict.direction == "over-confident":
            said = "too extreme (calibration slope 0." if kind == "binary" else "average confidence "
            assert said in verdict.short


def told(
    made: Maker, *, beside: Mapping[str, float] | None = None, **after: tuple[float | None, float]
) -> Verdict:
    """What is said of temperature scaling where it moves these metrics of an over-confident model.

    Each is given by the value before and by how much of it is added, beyond noise unless that is nothing;
    and the metrics of another calibrator that was tried, where they differ.
    """
    predictions = made("multiclass", 2000, sharpness=3, split=np.arange(2000) % 2)
    first, arm = judged(predictions).arms
    metrics, changes = dict(arm.metrics), dict(arm.change)
    before = dict(first.metrics)
    for name, (value, step) in after.items():
        reason = "infinite: 1 sample gives its true class probability 0" if value is None else None
        before[name] = Estimate(value=value, reason=reason)
        metrics[name] = Estimate(value=(value or 0.5) + step)
        sure = sorted([step / 2, 2 * step]) if step else [-0.001, 0.001]
        changes[name] = Estimate(value=step, low=sure[0], high=sure[1])
    procedure = Procedure(kind="multiclass", num_bins=15, num_resamples=50, num_draws=50, level=0.95, seed=0)
    case = Case(
        kind="multiclass",
        arms=[
            dataclasses.replace(first, metrics=before),
            dataclasses.replace(arm, metrics=metrics, change=changes),
            *([] if beside is None else [_another(arm, metrics, beside)]),
        ],
        uncalibrated=measure(reduce_predictions(predictions.test, 15), procedure),
        recommendation=Recommendation(
            Choice(chosen="temperature", candidates=(), num_samples=1000, folds=5), {}
        ),
        level=0.95,
        num_calibration=1000,
        num_test=1000,
        cross_fitted=False,
        one_class=False,
    )
    return reach_verdict(case)


def _another(arm: Arm, metrics: Mapping[str, Estimate], beside: Mapping[str, float]) -> Arm:
    others = {name: Estimate(value=value) for name, value in beside.items()}
    return dataclasses.replace(arm, name="focal-temperature", metrics={**metrics, **others})


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ({"ece": 0.02}, "its ECE is the highest of those tried, 0.300 against 0.0200"),
        ({"classwise_ece": 0.02}, "its classwise ECE is the highest of those tried, 0.200"),
        ({"ece": 0.31}, None),
    ],
)
def test_the_highest_error_of_those_tried_is_explained(made, beside, said) -> None:
    """Whichever of the errors that the verdict speaks of it is; it was not the error that chose."""
    verdict = told(made, beside=beside, ece=(0.4, -0.1), classwise_ece=(0.3, -0.1), nll=(0.9, -0.2))
    found = [sentence for sentence in verdict.sentences if "highest of those tried" in sentence]
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


def test_the_line_names_the_measures_that_moved(made) -> None:
    """The loss by which the calibrator was chosen and the calibration error, each with its numbers."""
    line = told(made, ece=(0.052, 0.0), nll=(0.786, -0.081)).line
    assert "Log loss falls from 0.786 to 0.705, ECE doesn't change" in line
    line = told(made, ece=(0.052, 0.02), nll=(None, -0.1)).line
    assert "falls from infinity (1 sample gives its true class probability 0) to 0.400, " in line
    assert "ECE rises from 0.0520 to 0.0720" in line
    line = told(made, ece=(0.052, -0.03), nll=(0.786, -0.081)).line
    assert "ECE falls from 0.0520 to 0.0220" in line


def test_what_is_better_can_be_seen_to_be(made) -> None:
    """Numbers that are alike at three digits get as many as it takes to tell them apart."""
    verdict = told(made, ece=(0.05204, -0.00001), nll=(0.78604, -0.0003))
    assert "ECE falls from 0.05204 to 0.05203" in verdict.line
    said = " ".join(verdict.sentences)
    assert "ECE falls from 0.05204 to 0.05203, log loss falls from 0.7860 to 0.7857" in said


@pytest.mark.parametrize("kind", ["top_label", "binary"])
def test_very_few_samples_are_told_first(kind) -> None:
    """Three sure and wrong answers are evidence, and still only three: the first words say so."""
    wrong = Predictions(confidence=[0.99] * 3, correct=[0] * 3)
    given = wrong if kind == "top_label" else Predictions(probs=[0.99] * 3, labels=[0] * 3)
    verdict = judged(given).verdict
    assert " on 3 samples: " in verdict.short
    assert " on 3 samples: " in verdict.headline
    assert verdict.line.startswith("Few samples: the true accuracy is between 0% and 70.8%.\nECE ")
    in_short(verdict)
