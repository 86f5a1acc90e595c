"""The laws that every metric of the roster obeys, and that no public metric escapes them."""

import inspect
import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import laws_metrics as laws
from calibrant import metrics
from closed_forms import Problem
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
# Examples of each law and each of some forty metrics; metrics of a family go through the same lines.
FEW = settings(max_examples=5)


@st.composite
def problems(draw: st.DrawFn, tasks: tuple[str, ...]) -> Problem:
    """Problems of some tasks and of many sizes."""
    return laws.draw_problem(
        draw(st.sampled_from(tasks)),
        draw(st.integers(1, 30)),
        draw(st.integers(2, 5)),
        draw(st.integers(0, 2**32 - 1)),
        dyadic=draw(st.booleans()),
    )


def some_problem(metric: Metric, data: st.DataObject) -> Problem:
    problem = data.draw(problems(metric.tasks))
    assume(metric.defined(problem))
    return problem


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


def test_perfect_predictor(metric: Metric) -> None:
    laws.law_perfect(metric)


def test_ignored_labels(metric: Metric) -> None:
    laws.law_ignored(metric)


def test_worst_predictor(metric: Metric) -> None:
    laws.law_worst(metric)


def test_constant_predictor(metric: Metric) -> None:
    """The same probabilities for all: the closed form, also with a class that no label names."""
    laws.law_constant(metric)


@FEW
@given(data=st.data())
def test_bounds_and_order_of_rows(metric: Metric, data: st.DataObject) -> None:
    problem = some_problem(metric, data)
    laws.law_bounds(metric, problem)
    laws.law_order_of_rows(metric, problem)


@FEW
@given(seed=st.integers(0, 2**32 - 1), num_classes=st.integers(2, 6))
def test_names_of_classes(metric: Metric, seed: int, num_classes: int) -> None:
    problem = laws.draw_problem("multiclass", 25, num_classes, seed, dyadic=False)
    assume(metric.defined(problem))
    laws.law_names_of_classes(metric, problem)


@FEW
@given(data=st.data())
def test_weights(weighted_metric: Metric, data: st.DataObject) -> None:
    laws.law_weights(weighted_metric, some_problem(weighted_metric, data))


def test_weights_are_refused(unweighted_metric: Metric) -> None:
    laws.law_weights_are_refused(unweighted_metric)


@FEW
@given(data=st.data())
def test_weights_are_copies(replicating_metric: Metric, data: st.DataObject) -> None:
    laws.law_weights_are_copies(replicating_metric, some_problem(replicating_metric, data))


def test_weights_are_no_copies(unreplicating_metric: Metric) -> None:
    laws.law_weights_are_no_copies(unreplicating_metric)


@FEW
@given(seed=st.integers(0, 2**32 - 1), dyadic=st.booleans())
def test_several_labels(metric_of_labels: Metric, seed: int, dyadic: bool) -> None:
    """Several labels per sample: the mean over the columns, and each of them with ``average="none"``."""
    problem = laws.draw_problem("multilabel", 20, 3, seed, dyadic=dyadic)
    assume(metric_of_labels.defined(problem))
    laws.law_several_labels(metric_of_labels, problem)


def test_labels_are_judged_together(metric_of_joint_labels: Metric) -> None:
    laws.law_labels_are_joint(metric_of_joint_labels)


def test_no_value_per_label(metric_without_labels: Metric) -> None:
    laws.law_no_value_per_label(metric_without_labels)


def test_other_tasks_are_refused(metric: Metric) -> None:
    laws.law_tasks_are_refused(metric)


@pytest.mark.parametrize(
    "law",
    [laws.law_dtypes, laws.law_containers, laws.law_arguments_are_left_alone],
    ids=lambda law: law.__name__,
)
def test_forms_of_arguments(metric: Metric, law: Any) -> None:
    for task in metric.tasks:
        law(metric, task)


def test_undefined(metric: Metric) -> None:
    """One sample, or one class, has a value, unless declared otherwise: then an error says so."""
    laws.law_undefined(metric)


def test_bad_arguments(metric: Metric) -> None:
    for bad in laws.BAD_ARGUMENTS:
        laws.law_bad_arguments(metric, bad)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), num_classes=st.integers(2, 9))
def test_entropy_is_at_most_that_of_the_uniform(seed: int, num_classes: int) -> None:
    """Entropy lies in [0, log C]."""
    problem = laws.draw_problem("multiclass", 10, num_classes, seed, dyadic=True)
    assert 0 <= metrics.predictive_entropy(problem.probs).item() <= math.log(num_classes) + CLOSED_FORM
