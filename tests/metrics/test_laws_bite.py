"""Every law of metrics catches a planted fault, and passes the sound metric on the same input."""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import laws_metrics as laws
from calibrant import InputError, metrics
from closed_forms import Problem
from laws_metrics import draw_problem
from rosters import METRICS, Metric


def _faulty_ece(
    *, signed: bool = False, last_open: bool = False, mean_of_bins: bool = False
) -> Callable[..., torch.Tensor]:
    """Expected calibration error with a fault in it."""

    def measure(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
        probs, labels = np.asarray(probs), np.asarray(labels)
        confidence, outcome = probs, labels
        if probs.ndim == 2:
            confidence, outcome = probs.max(1), probs.argmax(1) == labels
        index = np.maximum(np.searchsorted(np.arange(16) / 15, confidence) - 1, 0)
        if last_open:
            index[confidence >= 1] = 15
        sums = np.bincount(index, confidence - outcome, minlength=16)[:15]
        gaps = sums if signed else np.abs(sums)
        return torch.tensor(gaps.sum() / (15 if mean_of_bins else len(confidence)))

    return measure


def _untied_mass_ece(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    """Equal-mass error that lets the order of tied rows decide."""
    probs, labels = np.asarray(probs), np.asarray(labels)
    order = np.argsort(probs, kind="stable")
    residuals = np.array_split((probs - labels)[order], 5)
    return torch.tensor(sum(abs(part.sum()) for part in residuals) / len(probs))


def _right(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    return (torch.as_tensor(probs).argmax(1) == torch.as_tensor(labels)).double().mean()


def _in_the_dtype(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    """Brier score of an event summed in the dtype of the probabilities."""
    probs = torch.as_tensor(probs)
    return (probs - torch.as_tensor(labels).to(probs.dtype)).square().mean().double()


def _with_a_graph(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    return (torch.as_tensor(probs) - torch.as_tensor(labels)).square().mean()


def _sorting_in_place(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    found = metrics.brier_score(probs, labels)
    probs.copy_(probs.sort().values)
    return found


def _without_the_first(probs: Any, labels: Any, **more: Any) -> torch.Tensor:
    return metrics.brier_score(torch.as_tensor(probs)[1:], torch.as_tensor(labels)[1:], **more)


def _next_label(probs: Any, labels: Any, **more: Any) -> torch.Tensor:
    probs, labels = torch.as_tensor(probs), torch.as_tensor(labels)
    num_classes = 2 if probs.shape == labels.shape else probs.shape[1]
    return metrics.accuracy(probs, (labels + 1) % num_classes, **more)


def _pooled(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    return metrics.expected_calibration_error(np.ravel(probs), np.ravel(labels))


def _unbiased_variance(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    """Divides by N - 1, so one sample is NaN."""
    score = metrics.brier_score(probs, labels)
    return score * (len(probs) / torch.tensor(len(probs) - 1.0)) if len(probs) > 1 else score * torch.nan


def _believing(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    return torch.zeros((), dtype=torch.float64)


def _brier(probs: Any, labels: Any, *, mean_of_classes: bool = False, total: bool = False) -> torch.Tensor:
    squares = (np.asarray(probs) - np.eye(np.shape(probs)[1])[np.asarray(labels)]) ** 2
    per_row = squares.mean(1) if mean_of_classes else squares.sum(1)
    return torch.tensor(per_row.sum() if total else per_row.mean())


def _classwise_of_seen_classes(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    """Classwise error over the classes up to the largest label, as in the original code."""
    each = metrics.classwise_calibration_error(probs, labels, average="none")
    return each[: int(np.max(np.asarray(labels))) + 1].mean()


def _score_less_uncertainty(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    """Miscalibration that takes the base rate for the best recalibration."""
    parts = metrics.score_decomposition(probs, labels)
    return parts.score - parts.uncertainty


def _thresholded_over_all(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    """Thresholded error divided by the number of all samples, not of those that count."""
    each = metrics.thresholded_calibration_error(probs, labels)
    return each * (np.asarray(probs) >= 0.01).mean()


class Fault(NamedTuple):
    """A wrong function, or a wrong claim, in place of those of an entry, and the law that must catch it."""

    entry: str
    law: Callable[..., None]
    function: Callable[..., Any] | None = None
    argument: Problem | str | None = None
    claims: Mapping[str, Any] = MappingProxyType({})


SOME = draw_problem("multiclass", 20, 3, 1, dyadic=False)
LABELS = draw_problem("multilabel", 20, 3, 1, dyadic=False)
TIES = Problem("binary", np.full(20, 0.5), np.repeat([0, 1], 10))
TIMID = Problem("binary", np.array([0.2, 0.3]), np.array([1, 1]))
NEVER = {"undefined": "no value"}

PLANTED = {
    "sign flipped": Fault("ece", laws.law_bounds, _faulty_ece(signed=True), TIMID),
    "last bin open": Fault("ece", laws.law_worst, _faulty_ece(last_open=True)),
    "mean over bins": Fault("ece", laws.law_constant, _faulty_ece(mean_of_bins=True)),
    "order of ties": Fault("ece_mass", laws.law_order_of_rows, _untied_mass_ece, TIES),
    "first sample dropped": Fault("brier", laws.law_order_of_rows, _without_the_first, SOME),
    "labels shifted": Fault("accuracy", laws.law_perfect, _next_label),
    "deaf to the label that is ignored": Fault(
        "accuracy", laws.law_ignored, lambda p, _y, **_: p.nan_to_num().mean()
    ),
    "deaf to weights": Fault("accuracy", laws.law_weights, _right, SOME),
    "weights are no copies": Fault("accuracy", laws.law_weights_are_copies, _right, SOME),
    "mean over classes": Fault("brier", laws.law_constant, lambda p, y: _brier(p, y, mean_of_classes=True)),
    "sum for mean": Fault("brier", laws.law_constant, lambda p, y: _brier(p, y, total=True)),
    "bias left in": Fault(
        "ece_l2_debiased",
        laws.law_constant,
        lambda p, y: metrics.expected_calibration_error(p, y, norm="l2"),
    ),
    "bias of the size left in": Fault(
        "adaptive_debiased", laws.law_constant, metrics.expected_calibration_error
    ),
    "halves exchanged": Fault("over_confidence", laws.law_worst, metrics.under_confidence_error),
    "other half too": Fault("under_confidence", laws.law_constant, metrics.expected_calibration_error),
    "no sweep": Fault("sweep", laws.law_worst, metrics.adaptive_calibration_error),
    "no sweep in equal width": Fault("sweep_width", laws.law_worst, metrics.expected_calibration_error),
    "negligible ones counted": Fault("thresholded", laws.law_worst, _thresholded_over_all),
    "base rate for isotonic fit": Fault("miscalibration_brier", laws.law_perfect, _score_less_uncertainty),
    "squares for logarithms": Fault(
        "miscalibration_nll",
        laws.law_constant,
        lambda p, y: metrics.score_decomposition(p, y).miscalibration,
    ),
    "unseen classes left out": Fault("classwise", laws.law_constant, _classwise_of_seen_classes),
    "a class of its own": Fault(
        "accuracy",
        laws.law_names_of_classes,
        lambda _, y: (torch.as_tensor(y) == 0).double().mean(),
        SOME,
    ),
    "bins for smoothness": Fault("smooth", laws.law_worst, metrics.expected_calibration_error),
    "one kernel for the other": Fault("smooth_ece", laws.law_worst, metrics.smooth_calibration_error),
    "any recalibration": Fault(
        "processing_gap_nll",
        laws.law_worst,
        lambda p, y: metrics.score_decomposition(p, y, score="nll").miscalibration,
    ),
    "own label left in": Fault(
        "canonical", laws.law_constant, lambda p, y: metrics.classwise_calibration_error(p, y) * 2
    ),
    "range for the excursion": Fault(
        "kolmogorov_smirnov",
        laws.law_bounds,
        lambda p, y: metrics.kuiper_test(p, y, p_value="asymptotic").scaled,
        Problem("binary", np.full(9, 0.1), np.ones(9, int)),
    ),
    "variance forgotten": Fault(
        "spiegelhalter",
        laws.law_constant,
        lambda p, y: metrics.spiegelhalter_test(p, y).statistic / len(p) ** 0.5,
    ),
    "plug-in for the estimate": Fault(
        "squared", laws.law_constant, lambda p, y: metrics.expected_calibration_error(p, y, norm="l2") ** 2
    ),
    "top class alone": Fault("top_2", laws.law_constant, metrics.expected_calibration_error),
    "score for the gain": Fault("temperature_gain", laws.law_constant, metrics.negative_log_likelihood),
    "labels pooled": Fault("ece", laws.law_several_labels, _pooled, LABELS),
    "sums in the dtype": Fault("brier", laws.law_dtypes, _in_the_dtype, "binary"),
    "graph kept": Fault("brier", laws.law_containers, _with_a_graph, "binary"),
    "argument sorted": Fault("brier", laws.law_arguments_are_left_alone, _sorting_in_place, "binary"),
    "divided by N - 1": Fault("brier", laws.law_undefined, _unbiased_variance),
    "nothing checked": Fault("brier", laws.law_bad_arguments, _believing, "NaN"),
    "labels not asked for": Fault("brier", laws.law_bad_arguments, _believing, "no labels"),
    # claims that are not true
    "said to differ from copies": Fault("ece", laws.law_weights_are_no_copies, claims={"replicates": False}),
    "said to take no weights": Fault("ece", laws.law_weights_are_refused, claims={"weighted": False}),
    "said to be for events": Fault("ece", laws.law_tasks_are_refused, claims={"tasks": ("binary",)}),
    "said to judge labels together": Fault("ece", laws.law_labels_are_joint, claims={"labels_apart": False}),
    "said to have no value per label": Fault("ece", laws.law_no_value_per_label, claims={"per_label": False}),
    "said to need two samples": Fault("ece", laws.law_undefined, claims=NEVER | {"one_sample": False}),
    "said to need two classes": Fault("ece", laws.law_undefined, claims=NEVER | {"one_class": False}),
    "said to need no labels": Fault(
        "ece", laws.law_bad_arguments, None, "no labels", {"needs_labels": False}
    ),
}


def entry(name: str) -> Metric:
    return next(metric for metric in METRICS if metric.name == name)


@pytest.mark.parametrize("fault", PLANTED.values(), ids=PLANTED)
def test_laws_bite(fault: Fault) -> None:
    """Each planted fault breaks the law that is there to catch it; the real metric keeps it there."""
    arguments = [] if fault.argument is None else [fault.argument]
    changes = dict(fault.claims)
    if fault.function is not None:
        changes |= {"function": fault.function, "options": {}}
        fault.law(entry(fault.entry), *arguments)
    planted = dataclasses.replace(entry(fault.entry), **changes)
    with pytest.raises((AssertionError, InputError, pytest.fail.Exception)):
        fault.law(planted, *arguments)


def test_every_law_bites() -> None:
    every = {*laws.OF_METRICS, *laws.OF_PROBLEMS, *laws.OF_TASKS, laws.law_bad_arguments}
    assert {fault.law for fault in PLANTED.values()} == every
