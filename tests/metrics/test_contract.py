"""The laws that every metric of the roster obeys, and that no public metric escapes them."""

import inspect
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import laws_metrics as laws
from calibrant import metrics
from rosters import CLOSED_FORM, METRICS, Metric
from rosters_streaming import STREAMING

# What is public and no metric: a value that is not one number of probabilities and labels.
NO_NUMBERS = {
    "calibration_slope": "estimates with intervals, undefined for certain and for constant predictors",
    "corp_reliability_curve": "a curve",
    "decision_curve": "a curve",
    "flexible_calibration_curve": "a curve",
    "monotone_num_bins": "the number of bins of sweep_calibration_error",
    "out_of_distribution_detection": "five numbers of the scores of two samples",
    "out_of_distribution_scores": "a number for each sample, without labels",
    "reliability_table": "a table",
    "risk_coverage_curve": "a curve, whose area is in the roster",
    "roc_curve": "a curve of scores",
    "selective_risk_curve": "a curve of confidences and losses",
    "smooth_calibration_witness": "the function that attains smooth_calibration_error",
    "smooth_reliability_curve": "a curve",
}


def unlisted(public: set[str], roster: set[str], exempt: set[str]) -> str:
    """What to do about public names that no law reads; empty where there are none."""
    missing = ", ".join(sorted(public - roster - exempt))
    return missing and f"add {missing} to METRICS in tests/rosters.py, with what its documentation claims"


def test_no_metric_escapes() -> None:
    """Every public function is in the roster, or is no metric for a stated reason."""
    public = {name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
    listed = {entry.public_name for entry in METRICS}
    assert not unlisted(public, listed, set(NO_NUMBERS))
    assert listed | set(NO_NUMBERS) == public
    assert not listed & set(NO_NUMBERS)


def test_an_unlisted_metric_is_named() -> None:
    """A planted public metric fails the test above with what to add."""
    assert "add new_metric to METRICS" in unlisted({"accuracy", "new_metric"}, {"accuracy"}, set())
    assert unlisted({"accuracy"}, {"accuracy"}, set()) == ""


def test_no_streaming_class_escapes() -> None:
    from calibrant.metrics.streaming.base import StreamingMetric

    classes = {name: getattr(metrics, name) for name in metrics.__all__ if name[0].isupper()}
    public = {name for name, cls in classes.items() if issubclass(cls, StreamingMetric)}
    assert public == {entry.cls for entry in STREAMING}, "add to STREAMING in tests/rosters_streaming.py"


@pytest.mark.parametrize(
    ("law", "entry"),
    [
        pytest.param(law, entry, id=f"{law.__name__}-{entry.name}")
        for law, asked in laws.OF_METRICS.items()
        for entry in filter(asked, METRICS)
    ],
)
def test_law(law: Callable[[Metric], None], entry: Metric) -> None:
    law(entry)


@pytest.mark.parametrize("dyadic", [False, True])
def test_laws_of_problems(metric: Metric, dyadic: bool) -> None:
    for task in metric.tasks:
        problem = laws.draw_problem(task, 9 if dyadic else 25, 3 if dyadic else 4, 7, dyadic=dyadic)
        for law, asked in laws.OF_PROBLEMS.items():
            if metric.defined(problem) and asked(metric, problem):
                law(metric, problem)


@pytest.mark.parametrize("law", laws.OF_TASKS, ids=lambda law: law.__name__)
def test_forms_of_arguments(metric: Metric, law: Callable[[Metric, str], None]) -> None:
    for task in metric.tasks:
        law(metric, task)


def test_bad_arguments(metric: Metric) -> None:
    for bad in laws.BAD_ARGUMENTS:
        laws.law_bad_arguments(metric, bad)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), num_classes=st.integers(2, 9))
def test_entropy_is_at_most_that_of_the_uniform(seed: int, num_classes: int) -> None:
    """Entropy lies in [0, log C]."""
    problem = laws.draw_problem("multiclass", 10, num_classes, seed, dyadic=True)
    assert 0 <= metrics.predictive_entropy(problem.probs).item() <= math.log(num_classes) + CLOSED_FORM
