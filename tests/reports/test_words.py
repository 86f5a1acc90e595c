"""Names, judgements and numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.evaluation.quantities import display_order
from calibrant.evaluation.result import Estimate
from calibrant.reports import words

FINITE = st.floats(-1e6, 1e6)


@given(FINITE)
def test_numbers_keep_four_decimals(value) -> None:
    """What is written reads back to within half a unit of the fourth decimal, with and without a sign."""
    for signed in (False, True):
        text = words.number(value, signed=signed).replace("−", "-")
        assert math.isclose(float(text), value, rel_tol=1e-12, abs_tol=0.5000001e-4)
        assert len(text.partition(".")[2]) == 4
    assert words.number(-0.00004, signed=True) == "0.0000"  # no minus nothing


@pytest.mark.parametrize(
    ("key", "value", "change", "low", "high", "expected"),
    [
        ("ece", 0.02, -0.03, -0.04, -0.02, "better"),
        ("ece", 0.08, 0.03, 0.02, 0.04, "worse"),
        ("ece", 0.04, -0.01, -0.03, 0.001, None),  # zero lies in the interval
        ("nll", 0.30001, -0.00002, -0.00003, -0.00001, None),  # alike as shown
        ("nll", 0.30006, 0.00002, 0.00001, 0.00003, "worse"),  # 0.3000 to 0.3001
        ("gap", 0.00001, 0.00003, 0.00002, 0.00004, None),
        ("accuracy", 0.8, 0.03, 0.02, 0.04, "better"),
        ("accuracy", 0.8, -0.03, -0.04, -0.02, "worse"),
        ("gap", -0.01, -0.06, -0.07, -0.05, "better"),  # from 0.05 to -0.01
        ("gap", -0.08, -0.06, -0.07, -0.05, "worse"),  # from -0.02 to -0.08
        ("gap", None, -0.06, -0.07, -0.05, None),
        ("mean_confidence", 0.7, -0.1, -0.2, -0.05, None),  # neither end is good
        ("ece", 0.02, -0.03, None, None, None),
        ("something_new", 0.02, -0.03, -0.04, -0.02, None),
    ],
)
def test_a_change_is_judged_by_its_interval_and_direction(key, value, change, low, high, expected) -> None:
    """Better or worse needs an interval without zero and a metric of which one end is good."""
    verdict = words.mark_of_change(
        key, "multiclass", Estimate(value=value), Estimate(value=change, low=low, high=high)
    )
    assert verdict == expected


def test_binary_metrics_name_what_they_judge() -> None:
    """Both calibration errors of a binary model say which they are; others have one name in every kind."""
    assert words.metric("adaptive_ece", "binary").title == "Adaptive ECE, top label"
    assert words.metric("event_adaptive_ece", "binary").title == "Adaptive ECE, positive class"
    assert words.metric("nll", "binary").title == words.metric("nll", "multiclass").title == "Log loss"
    # A metric that is added elsewhere appears, last, without an explanation.
    assert words.metric("smooth_ece_of_tomorrow", "multiclass").title == "smooth ece of tomorrow"
    assert sorted(["zzz", "nll", "ece", "event_ece"], key=display_order) == ["event_ece", "ece", "nll", "zzz"]
    assert words.mark_of_change("ece", "binary", Estimate(value=0.1), None) is None


def test_small_texts() -> None:
    assert words.plural(1, "class", "classes") == "1 class"
    assert words.plural(12345, "sample") == "12,345 samples"
    assert words.percent(0.95) == "95%"
    assert words.percent(0.999) == "99.9%"
    assert words.parameter(-1.23456) == "−1.235"
    assert words.parameter_name("original") == "share of the original probabilities"
    assert words.parameter_name("temperature") == "temperature"
    assert words.parameter(tuple(map(float, range(9)))) == "[0, 1, 2, 3, 4, 5, … 9 values]"
    assert words.shortened("abcdefghij", most=10) == "abcdefghij"
    assert words.shortened("abcdefghijk", most=10) == "abcde…hijk"
