"""What there is, with what is claimed of it: one entry here, and every law of its kind is tested.

A test directory reads this file in its ``conftest.py`` and hands the entries out as parameters.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant import metrics
from closed_forms import (
    Problem,
    Vector,
    brier_surprise,
    debiased_l1,
    debiased_l2,
    debiased_square,
    divergence,
    event_entropy,
    event_nll,
    every_class_occurs,
    has_neighbours,
    left_out,
    smoothed_ends,
    temperature_gain,
    worst_smooth_ece,
)

CLOSED_FORM = 1e-12
TASKS = ("binary", "multiclass", "multilabel")


@dataclass(frozen=True)
class Metric:
    """A metric under one choice of options, and what its documentation claims."""

    name: str
    function: Callable[..., Any]
    perfect: float
    """Value where every true class has probability one."""
    worst: float
    """Value of two balanced classes where every true class has probability zero."""
    worst_event: float
    """The same for an event."""
    constant_classes: Callable[[Vector, Vector], float]
    """Value of ten samples of which every row is ``q``, by ``q`` and the frequencies of the classes."""
    constant_event: Callable[[float, float], float]
    """Value of seven samples of the probability ``p``, by ``p`` and the frequency of the event."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lower: float = 0.0
    upper_classes: float = 1.0
    upper_event: float = 1.0
    tolerance: float | None = None
    """The accuracy it states, where it iterates; else exact but for rounding."""
    tasks: tuple[str, ...] = TASKS
    """What it is for; it refuses the others."""
    weighted: bool = True
    """Takes weights."""
    replicates: bool = True
    """An integer weight equals as many copies of the row."""
    per_label: bool = True
    """Has ``average="none"`` where samples have several labels."""
    labels_apart: bool = True
    """Is the mean over the labels where samples have several."""
    needs_labels: bool = True
    one_sample: bool = True
    """Has a value for one sample."""
    one_class: bool = True
    """Has a value where all samples are of one class."""
    undefined: str = ""
    """What it says where it has none."""
    defined: Callable[[Problem], bool] = lambda _: True
    """Whether it has a value for every class or label of a problem."""

    def __call__(self, probs: Any, labels: Any, **more: Any) -> Any:
        """Evaluate under the options of this entry."""
        return self.function(probs, labels, **self.options, **more)

    @property
    def public_name(self) -> str:
        return self.function.__name__


def part(function: Callable[..., Any], name: str, **fixed: Any) -> Callable[..., Any]:
    """One number of those that a function returns."""

    @functools.wraps(function)
    def part(probs: Any, labels: Any, **more: Any) -> Any:
        return getattr(function(probs, labels, **fixed, **more), name)

    return part


def _statistic(function: Callable[..., Any]) -> Callable[..., Any]:
    """The statistic of a test, which has one for each label; their mean by default."""

    @functools.wraps(function)
    def statistic(probs: Any, labels: Any, *, average: str = "macro", **more: Any) -> Any:
        found = function(probs, labels, **more).statistic
        return found if average == "none" else found.mean()

    return statistic


@functools.wraps(metrics.refinement_decomposition)
def _unrefined(probs: Any, labels: Any, **more: Any) -> Any:
    """What no recalibration leaves of a score: all of it."""
    return metrics.refinement_decomposition(probs, probs, labels, **more).refinement


@functools.wraps(metrics.variational_calibration_error)
def _variational(probs: Any, labels: Any, **more: Any) -> Any:
    """The bound by a recalibration to equal probabilities."""
    shape = np.shape(probs)
    equal = np.full(shape, 1 / shape[1] if len(shape) > np.ndim(labels) else 0.5)
    return metrics.variational_calibration_error(probs, equal, labels, **more).value


_TOP = {
    "perfect": 0.0,
    "worst": 1.0,
    "worst_event": 1.0,
    "constant_classes": lambda q, f: abs(q.max() - f[q.argmax()]),
    "constant_event": lambda p, f: abs(p - f),
}
_EACH = {
    "perfect": 0.0,
    "worst": 1.0,
    "worst_event": 1.0,
    "constant_classes": lambda q, f: float(np.abs(q - f).mean()),
    "constant_event": lambda p, f: abs(p - f),
}

_SMOOTH = _TOP | {"worst_event": 0.5}  # of the two ends at most half is seen at once
_TWO_BINS = {
    "perfect": 0.0,
    "worst": 1.0,
    "worst_event": 0.5,
    "constant_classes": lambda q, f: (q.max() - f[q.argmax()]) ** 2,
    "constant_event": lambda p, f: (p - f) ** 2,
    "tolerance": CLOSED_FORM,  # with weights the same residuals are added up in another order
}
_SQUARES = {
    "perfect": 0.0,
    "worst": 2.0,
    "worst_event": 1.0,
    "constant_classes": lambda q, f: float((q**2).sum() - 2 * (f * q).sum() + 1),
    "constant_event": lambda p, f: f * (1 - p) ** 2 + (1 - f) * p**2,
    "upper_classes": 2.0,
}
_CANONICAL = {
    "perfect": 0.0,
    "worst": 2.0,
    "worst_event": 1.0,
    "constant_classes": lambda q, f: left_out(q, f, 10),
    "constant_event": lambda p, f: left_out(np.array([1 - p, p]), np.array([1 - f, f]), 7) / 2,
    "upper_classes": 2.0,
    "replicates": False,  # copies of a sample are its neighbours
    "one_sample": False,
    "undefined": "no sample has a neighbour",
    "defined": has_neighbours,
}
_LIMIT_LAW = {"p_value": "asymptotic"}

METRICS = (
    Metric("ece", metrics.expected_calibration_error, **_TOP),
    Metric("ece_l2", metrics.expected_calibration_error, options={"norm": "l2"}, **_TOP),
    Metric(
        "ece_mass", metrics.expected_calibration_error, options={"binning": "mass"}, replicates=False, **_TOP
    ),
    Metric(
        "ece_mukhoti",
        metrics.expected_calibration_error,
        options={"binning": "mukhoti"},
        perfect=0.0,
        worst=0.0,  # loses the samples of lowest confidence: the fault it reproduces
        worst_event=0.5,
        constant_classes=lambda _q, _f: 0.0,
        constant_event=lambda _p, _f: 0.0,
        weighted=False,
        replicates=False,
    ),
    Metric("adaptive", metrics.adaptive_calibration_error, replicates=False, **_TOP),
    Metric(
        "adaptive_l2",
        metrics.adaptive_calibration_error,
        options={"norm": "l2", "num_bins": 4},
        replicates=False,
        **_TOP,
    ),
    Metric("mce", metrics.maximum_calibration_error, **_TOP),
    Metric(
        "mce_mass", metrics.maximum_calibration_error, options={"binning": "mass"}, replicates=False, **_TOP
    ),
    Metric("classwise", metrics.classwise_calibration_error, **_EACH),
    Metric("classwise_l2", metrics.classwise_calibration_error, options={"norm": "l2"}, **_EACH),
    Metric(
        "classwise_debiased",
        metrics.classwise_calibration_error,
        options={"norm": "l2", "debias": True},
        replicates=False,
        **_EACH
        | {
            "constant_classes": lambda q, f: float(
                np.mean([debiased_l2(abs(p - each), each, 10) for p, each in zip(q, f, strict=True)])
            ),
            "constant_event": lambda p, f: debiased_l2(abs(p - f), f, 7),
        },
    ),
    Metric(
        "classwise_mass",
        metrics.classwise_calibration_error,
        options={"binning": "mass"},
        replicates=False,
        **_EACH,
    ),
    Metric(
        "ece_l2_debiased",
        metrics.expected_calibration_error,
        options={"norm": "l2", "debias": True},
        replicates=False,
        **_TOP
        | {
            "constant_classes": lambda q, f: debiased_l2(abs(q.max() - f[q.argmax()]), f[q.argmax()], 10),
            "constant_event": lambda p, f: debiased_l2(abs(p - f), f, 7),
        },
    ),
    Metric(
        "adaptive_debiased",
        metrics.adaptive_calibration_error,
        options={"debias": True, "num_bins": 1},
        replicates=False,
        **_TOP
        | {
            "worst_event": 0.0,  # in one bin, what is said too high and too low cancels
            "constant_classes": lambda q, f: debiased_l1(abs(q.max() - f[q.argmax()]), f[q.argmax()], 10),
            "constant_event": lambda p, f: debiased_l1(abs(p - f), f, 7),
        },
    ),
    Metric(
        "over_confidence",
        metrics.over_confidence_error,
        perfect=0.0,
        worst=1.0,
        worst_event=0.5,
        constant_classes=lambda q, f: max(0.0, q.max() - f[q.argmax()]),
        constant_event=lambda p, f: max(0.0, p - f),
    ),
    Metric(
        "under_confidence",
        metrics.under_confidence_error,
        perfect=0.0,
        worst=0.0,
        worst_event=0.5,
        constant_classes=lambda q, f: max(0.0, f[q.argmax()] - q.max()),
        constant_event=lambda p, f: max(0.0, f - p),
    ),
    Metric(  # of an event whose outcomes fall with its probability there is one bin, where the gaps cancel
        "sweep", metrics.sweep_calibration_error, replicates=False, **_TOP | {"worst_event": 0.0}
    ),
    Metric(
        "sweep_width",
        metrics.sweep_calibration_error,
        options={"binning": "width", "norm": "l2"},
        replicates=False,
        **_TOP | {"worst_event": 0.0},
    ),
    Metric("thresholded", metrics.thresholded_calibration_error, replicates=False, **_EACH),
    Metric(
        "miscalibration_brier",
        part(metrics.score_decomposition, "miscalibration"),
        perfect=0.0,
        worst=1.0,
        worst_event=0.75,
        constant_classes=lambda q, f: (q.max() - f[q.argmax()]) ** 2,
        constant_event=lambda p, f: (p - f) ** 2,
    ),
    Metric(
        "miscalibration_nll",
        part(metrics.score_decomposition, "miscalibration"),
        options={"score": "nll"},
        perfect=0.0,
        worst=math.inf,
        worst_event=math.inf,
        constant_classes=lambda q, f: divergence(q.max(), f[q.argmax()]),
        constant_event=divergence,
        upper_classes=math.inf,
        upper_event=math.inf,
    ),
    Metric(
        "nll",
        metrics.negative_log_likelihood,
        perfect=0.0,
        worst=math.inf,
        worst_event=math.inf,
        constant_classes=lambda q, f: float(-(f * np.log(q)).sum()),
        constant_event=event_nll,
        upper_classes=math.inf,
        upper_event=math.inf,
    ),
    Metric("brier", metrics.brier_score, **_SQUARES),
    Metric("refinement", _unrefined, options={"score": "brier"}, per_label=False, **_SQUARES),
    Metric(
        "accuracy",
        metrics.accuracy,
        perfect=1.0,
        worst=0.0,
        worst_event=0.0,
        constant_classes=lambda q, f: float(f[q.argmax()]),
        constant_event=lambda p, f: f if p > 0.5 else 1 - f,
    ),
    Metric(
        "error_rate",
        metrics.error_rate,
        perfect=0.0,
        worst=1.0,
        worst_event=1.0,
        constant_classes=lambda q, f: 1 - float(f[q.argmax()]),
        constant_event=lambda p, f: 1 - f if p > 0.5 else f,
    ),
    Metric(
        "entropy",
        metrics.predictive_entropy,
        perfect=0.0,
        worst=0.0,
        worst_event=0.0,
        constant_classes=lambda q, _f: float(-(q * np.log(q)).sum()),
        constant_event=lambda p, _f: event_entropy(p),
        upper_classes=math.inf,
        upper_event=math.log(2),
        per_label=False,
        needs_labels=False,
    ),
    Metric(
        "high_confidence_share",
        part(metrics.high_confidence, "share", threshold=0.5),
        perfect=1.0,
        worst=1.0,
        worst_event=1.0,
        constant_classes=lambda q, _f: float(q.max() >= 0.5),
        constant_event=lambda p, _f: float(max(p, 1 - p) >= 0.5),
        per_label=False,
    ),
    Metric(
        "aurc",
        metrics.risk_coverage_area,
        perfect=0.0,
        worst=1.0,
        worst_event=1.0,
        constant_classes=lambda q, f: 1 - float(f[q.argmax()]),
        constant_event=lambda p, f: 1 - f if p > 0.5 else f,
    ),
    Metric(
        "risk_at_coverage",
        metrics.risk_at_coverage,
        options={"coverage": 0.8},
        perfect=0.0,
        worst=1.0,
        worst_event=1.0,
        constant_classes=lambda q, f: 1 - float(f[q.argmax()]),
        constant_event=lambda p, f: 1 - f if p > 0.5 else f,
    ),
    Metric(
        "coverage_at_risk",
        metrics.coverage_at_risk,
        options={"risk": 0.05},
        perfect=1.0,
        worst=0.0,
        worst_event=0.0,
        constant_classes=lambda q, f: float(f[q.argmax()] >= 0.95),
        constant_event=lambda p, f: float((f if p > 0.5 else 1 - f) >= 0.95),
    ),
    Metric(
        "excess_aurc",
        metrics.risk_coverage_area,
        options={"excess": True},
        perfect=0.0,
        worst=0.0,  # where everything is wrong every order is the best
        worst_event=0.0,
        constant_classes=lambda q, f: -float(f[q.argmax()] * np.log(f[q.argmax()])),
        constant_event=lambda p, f: -(f * math.log(f) if p > 0.5 else (1 - f) * math.log1p(-f)),
    ),
    Metric(
        "auroc",
        metrics.auroc,
        perfect=1.0,
        worst=0.0,
        worst_event=0.0,
        constant_classes=lambda _q, _f: 0.5,
        constant_event=lambda _p, _f: 0.5,
        one_sample=False,
        one_class=False,
        undefined="AUROC is undefined",
        defined=every_class_occurs,
    ),
    # With weights the same residuals are added up in another order.
    Metric("smooth", metrics.smooth_calibration_error, tolerance=CLOSED_FORM, **_SMOOTH),
    Metric(
        "smooth_classwise",
        metrics.smooth_calibration_error,
        options={"classwise": True},
        tolerance=CLOSED_FORM,
        **_EACH | {"worst": 0.5, "worst_event": 0.5},
    ),
    Metric(
        "smooth_ece",
        metrics.smooth_ece,
        tolerance=1e-6,  # as its documentation says
        **_SMOOTH | {"worst_event": worst_smooth_ece()},
    ),
    Metric(
        "smooth_ece_fixed",
        metrics.smooth_ece,
        options={"bandwidth": 0.1},
        tolerance=1e-6,
        **_SMOOTH | {"worst_event": smoothed_ends(0.1)},
    ),
    Metric(
        "processing_gap",
        metrics.post_processing_gap,
        perfect=0.0,
        worst=1.0,
        worst_event=0.75,
        constant_classes=lambda q, f: (q.max() - f[q.argmax()]) ** 2,
        constant_event=lambda p, f: (p - f) ** 2,
    ),
    Metric(
        "processing_gap_nll",
        metrics.post_processing_gap,
        options={"score": "nll"},
        perfect=0.0,
        worst=4.0,  # the farthest that log-odds may move
        worst_event=4.0,
        constant_classes=lambda q, f: divergence(q.max(), f[q.argmax()]),
        constant_event=divergence,
        upper_classes=4.0,
        upper_event=4.0,
        tolerance=1e-7,  # as its documentation says
    ),
    Metric("two_bins", metrics.averaged_two_bin_error, **_TWO_BINS),
    Metric(
        "two_bins_classwise",
        metrics.averaged_two_bin_error,
        options={"classwise": True},
        **_TWO_BINS | {"worst": 0.5, "constant_classes": lambda q, f: float(np.square(q - f).mean())},
    ),
    Metric(
        "decision_loss",
        metrics.calibration_decision_loss,
        **_TOP
        | {
            "constant_classes": lambda q, f: abs(q.max() - f[q.argmax()]) / max(q.max(), 1 - q.max()),
            "constant_event": lambda p, f: abs(p - f) / max(p, 1 - p),
        },
    ),
    Metric(
        "variational",
        _variational,
        perfect=0.0,
        worst=2.0,
        worst_event=1.0,
        constant_classes=lambda q, f: float(np.sign(1 / len(q) - q) @ (f - q)),
        constant_event=lambda p, f: math.copysign(f - p, (0.5 - p) * (f - p)),
        lower=-2.0,
        upper_classes=2.0,
        per_label=False,
        tolerance=CLOSED_FORM,  # several labels are added up in another order
    ),
    Metric("kolmogorov_smirnov", _statistic(metrics.kolmogorov_smirnov_test), options=_LIMIT_LAW, **_SMOOTH),
    Metric("kuiper", _statistic(metrics.kuiper_test), options=_LIMIT_LAW, **_SMOOTH),
    Metric(
        "spiegelhalter",
        _statistic(metrics.spiegelhalter_test),
        perfect=0.0,
        worst=math.inf,
        worst_event=math.inf,
        constant_classes=lambda q, f: brier_surprise(q.max(), f[q.argmax()], 10),
        constant_event=lambda p, f: brier_surprise(p, f, 7),
        lower=-math.inf,
        upper_classes=math.inf,
        upper_event=math.inf,
        replicates=False,
    ),
    Metric(
        "squared",
        metrics.squared_calibration_error,
        lower=-1.0,
        replicates=False,
        **_TOP
        | {
            "constant_classes": lambda q, f: debiased_square(q.max() - f[q.argmax()], f[q.argmax()], 10),
            "constant_event": lambda p, f: debiased_square(p - f, f, 7),
        },
    ),
    Metric(
        "top_2",
        metrics.top_k_calibration_error,
        options={"k": 2},
        perfect=0.0,
        worst=0.0,  # of two classes one is true
        worst_event=math.nan,
        constant_classes=lambda q, f: abs(np.sort(q)[-2:].sum() - f[np.argsort(q)[-2:]].sum()),
        constant_event=lambda _p, _f: math.nan,
        tasks=("multiclass",),
        per_label=False,
    ),
    Metric(
        "second",
        metrics.top_k_calibration_error,
        options={"k": 2, "judge": "rank"},
        perfect=0.0,
        worst=1.0,
        worst_event=math.nan,
        constant_classes=lambda q, f: abs(np.sort(q)[-2] - f[np.argsort(q)[-2]]),
        constant_event=lambda _p, _f: math.nan,
        tasks=("multiclass",),
        per_label=False,
    ),
    # Exponents are in units of the bandwidth, of which the smallest tried, 1e-5, magnifies their rounding.
    Metric("canonical", metrics.canonical_calibration_error, tolerance=1e-9, **_CANONICAL),
    Metric("canonical_fixed", metrics.canonical_calibration_error, options={"bandwidth": 0.1}, **_CANONICAL),
    Metric(
        "temperature_gain",
        part(metrics.temperature_decomposition, "calibration"),
        perfect=0.0,
        worst=math.inf,
        worst_event=math.inf,
        constant_classes=lambda q, f: temperature_gain(q, f),
        constant_event=lambda p, f: temperature_gain(np.array([1 - p, p]), np.array([1 - f, f])),
        upper_classes=math.inf,
        upper_event=math.inf,
        tolerance=1e-9,  # Newton's method stops there
        per_label=False,
        labels_apart=False,  # one temperature for all
    ),
)
