"""An error that is beyond chance, and too small to matter; the table by group in one sentence."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant import Predictions, evaluate
from calibrant.evaluation.phrases import group_sentence
from calibrant.evaluation.resampling.intervals import significance
from calibrant.evaluation.result import Estimate, GroupRow, NullError
from calibrant.repair import apply, fit

FEW = {"bootstrap": 20, "null_draws": 200, "calibrators": []}


def slightly_off(size: int = 400_000, *, shift: float = 0.013) -> Predictions:
    """Log-odds too high by 0.013: 0.25 points, which so many samples show."""
    rng = np.random.default_rng(0)
    log_odds = rng.normal(0, 1, size)
    labels = rng.random(size) < 1 / (1 + np.exp(-log_odds))
    return Predictions(logits=log_odds + shift, labels=labels)


def test_a_small_error_is_within_the_tolerance() -> None:
    found = evaluate(slightly_off(), **FEW)
    assert not found.arms[0].parts[0].holds
    assert 0 < found.arms[0].metrics["event_ece"].high < 0.005
    assert found.verdict.direction == "calibrated"
    assert found.verdict.short == "Nearly calibrated: the error is real, but below 0.5 points."
    assert found.verdict.headline == found.verdict.short
    assert any("below 0.5%" in each for each in found.verdict.sentences)


def test_the_cost_of_a_small_error_is_said() -> None:
    """In log loss, by the best repair: about half of 0.08 squared times p (1 - p); with tolerance only."""
    given = slightly_off(50_000, shift=0.08)
    found = evaluate(given, bootstrap=20, null_draws=200, calibrators=["platt"], tolerance=0.03)
    for tolerance in (0, 0.005):
        assert evaluate(given, tolerance=tolerance, **FEW).verdict.direction == "over-predicting"
    said = next(each for each in found.verdict.sentences if "below 3.0%" in each)
    cost = said.partition("; no repair lowers log loss by more than ")[2]
    assert 0.0002 < float(cost.removesuffix(".")) < 0.0012


def test_the_tolerance_holds_after_a_repair_as_well() -> None:
    """A temperature leaves a small real error, of which both the evaluation and that of its result say so."""
    rng = np.random.default_rng(3)
    log_odds = rng.normal(0, 1, 40_000)
    labels = rng.random(40_000) < 1 / (1 + np.exp(-log_odds))
    given = Predictions(logits=3 * (log_odds + 0.1), labels=labels, split=np.arange(40_000) % 2)

    def judged(predictions: Predictions, **options: object) -> str:
        found = evaluate(predictions, bootstrap=20, null_draws=200, **options)
        return found.verdict.line if found.verdict.repair else found.verdict.short

    calibrator = fit(given, method="temperature")
    fixed = apply(calibrator, given.test)
    for tolerance, left in (
        (0.05, "Nearly calibrated after it: the remaining error is real, but below 5"),
        (0.005, "Not fully repaired"),
    ):
        assert left in judged(given, calibrators=["temperature"], tolerance=tolerance)
        alone = judged(fixed, calibrators=[], tolerance=tolerance)
        assert alone.startswith("Nearly calibrated") is left.startswith("Nearly calibrated")


def test_the_tolerance_of_a_rare_event_is_a_tenth_of_its_rate() -> None:
    """Of an event of 1%, an error of 0.3 points matters although it is less than half a point."""
    rng = np.random.default_rng(1)
    log_odds = rng.normal(-4.8, 0.5, 100_000)
    labels = rng.random(100_000) < 1 / (1 + np.exp(-log_odds))
    found = evaluate(Predictions(logits=log_odds + 0.25, labels=labels), **FEW)
    assert found.arms[0].metrics["event_ece"].high < 0.005
    assert found.verdict.direction == "over-predicting"


LEVEL = 0.95


def row(name: str, actual: float, adjusted_p: float) -> GroupRow:
    return GroupRow(
        name=name,
        count=100,
        actual=Estimate(value=actual),
        predicted=Estimate(value=0.8),
        gap=Estimate(value=0.8 - actual),
        ece=Estimate(value=abs(0.8 - actual)),
        null=NullError(metric="ece", mean=0.03, upper=0.06, p_value=adjusted_p, num_draws=1000),
        p_value=adjusted_p,
        adjusted_p=adjusted_p,
        vague=False,
    )


OF_FOUR = (
    "4 of 4 groups are miscalibrated beyond noise (c: 80.0% predicted, 50.0% actual; b: 80.0% predicted, "
    "99.0% actual; d: 80.0% predicted, 68.0% actual; and 1 more), corrected for 4 tests (Holm)."
)
ONLY = "The only group is {}miscalibrated beyond noise{}."
EVEN = replace(row("a", 0.8, 0.001), gap=Estimate(value=0.0, low=-0.1, high=0.1), ece=Estimate(value=0.12))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(*each, 0.001) for each in (("a", 0.7), ("b", 0.99), ("c", 0.5), ("d", 0.68))], OF_FOUR),
        (  # a p-value at the level
            [row("a", 0.7, significance(LEVEL, 1)), row("b", 0.8, 0.9)],
            "None of 2 groups are miscalibrated beyond noise, corrected for 2 tests (Holm).",
        ),
        ([row("a", 0.8, 0.9)], ONLY.format("not ", "")),
        ([row("a", 0.7, 0.001)], ONLY.format("", " (a: 80.0% predicted, 70.0% actual)")),
        ([EVEN], ONLY.format("", " (a: right on average, ECE 0.120)")),
    ],
)
def test_the_worst_groups_are_named_first_whichever_way_they_err(rows, said) -> None:
    assert group_sentence(rows, len(rows), LEVEL) == said
