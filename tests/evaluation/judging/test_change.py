"""Changes of calibration errors, from the intervals of both."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant.evaluation.arguments import Procedure, few_draws_note
from calibrant.evaluation.judging.measure import Measured, change, measure
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.result import Estimate
from calibrant.predictions import Predictions

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
