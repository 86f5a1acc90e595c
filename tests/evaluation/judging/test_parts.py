"""The parts of the verdict, each blamed for its own fault and rarely without one; changes of errors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibrant.evaluation.arguments import Procedure, few_draws_note
from calibrant.evaluation.judging import noise
from calibrant.evaluation.judging.measure import Measured, against_chance, change, measure
from calibrant.evaluation.judging.noise import draw_noise
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.result import Estimate
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


PROCEDURE = Procedure(kind="binary", num_bins=10, num_resamples=50, num_draws=100, level=0.95, seed=0)


def judged(factor: float, procedure: Procedure = PROCEDURE) -> Measured:
    """The same 400 labels under log-odds times a factor."""
    rng = np.random.default_rng(0)
    odds = rng.normal(size=400)
    labels = (rng.random(400) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return measure(reduce_predictions(Predictions(logits=factor * odds, labels=labels), 10), procedure)


def test_the_ends_are_as_far_off_as_those_of_both_errors() -> None:
    """Where one error may be zero: the root of both distances' squares, off the estimates' difference."""
    calibrated, off = judged(1.0), judged(4.0)
    one, other = (each.metrics["event_ece"] for each in (off, calibrated))
    assert other.low == 0.0
    found = change(off, calibrated, 0.95)["event_ece"]
    ends = [one.low, one.high, one.without_chance, other.low, other.high, other.without_chance]
    low, high, middle, old_low, old_high, old_middle = (float(each) for each in ends if each is not None)
    assert found.without_chance == middle - old_middle
    assert found.low == pytest.approx(
        middle - old_middle - np.hypot(middle - low, old_high - old_middle), abs=1e-12
    )
    above = middle - old_middle + np.hypot(high - middle, old_middle - old_low)
    assert found.high == pytest.approx(max(high, above), abs=1e-12)
    back = change(calibrated, off, 0.95)["event_ece"]
    assert (back.low, back.high) == pytest.approx((-(found.high or 0.0), -(found.low or 0.0)), abs=1e-12)


def test_where_half_the_level_is_out_of_reach_the_own_interval_decides() -> None:
    """Of 100 draws the least p-value is 0.0099, more than half of 1.5 %: the interval does not break open."""
    off, calibrated = (judged(factor, replace(PROCEDURE, level=0.985)) for factor in (4.0, 1.0))
    assert (off.metrics["event_ece"].low or 0.0) > 0
    assert [each.may_be_zero("event_ece") for each in (off, calibrated)] == [False, True]
    assert [len(few_draws_note(number, 0.985)) for number in (100, 132, 133)] == [1, 1, 0]


@pytest.mark.parametrize(
    ("low", "p_value", "reaches"), [(0.0, 0.2, True), (0.1, 0.026, True), (0.1, 0.024, False)]
)
def test_if_one_error_is_zero_the_change_may_be_all_of_the_other(low, p_value, reaches) -> None:
    """So the interval reaches to the other's end, further than the root where chance adds to the first.

    Zero is ruled out here at half of the 5 % at which the error's own interval leaves it out.
    """
    new, old = judged(4.0), judged(3.0)
    new.metrics["event_ece"] = Estimate(value=0.2, low=0.1, high=0.3, without_chance=0.18)
    old.metrics["event_ece"] = Estimate(value=0.15, low=low, high=0.2, without_chance=0.13)
    kept = old.noise._inverted  # pyright: ignore[reportPrivateUsage]
    kept.update({key: replace(each, p_value=p_value) for key, each in kept.items()})
    found = change(new, old, 0.95, paired=False)["event_ece"]
    root = 0.05 + np.hypot(0.12, 0.13 - low)
    assert root < 0.3
    assert found.high == pytest.approx(0.3 if reaches else root)
