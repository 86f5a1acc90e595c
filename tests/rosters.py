"""What there is, with what is claimed of it: one entry here, and every law of its kind is tested.

A test directory reads this file in its ``conftest.py`` and hands the entries out as parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant import metrics

# ---------------------------------------------------------------------------------------------- metrics

Vector = np.ndarray[Any, np.dtype[np.float64]]


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
    """Value where every row is ``q``, as a function of ``q`` and the frequencies of the classes."""
    constant_event: Callable[[float, float], float]
    """Value where every probability is ``p``, as a function of ``p`` and the frequency of the event."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    upper_classes: float = 1.0
    upper_event: float = 1.0
    weighted: bool = True
    """Takes weights."""
    replicates: bool = True
    """An integer weight equals as many copies of the row (not in equal-mass bins: they end at whole rows)."""
    per_label: bool = True
    """Has ``average="none"`` where samples have several labels, and is the mean over the labels otherwise."""
    needs_both: bool = False
    """Undefined where all samples are of one class."""

    def __call__(self, probs: Any, labels: Any, **more: Any) -> Any:
        """Evaluate under the options of this entry."""
        return self.function(probs, labels, **self.options, **more)


def _share(probs: Any, labels: Any, **more: Any) -> Any:
    return metrics.high_confidence(probs, labels, threshold=0.5, **more).share


def _confident_accuracy(probs: Any, labels: Any, **more: Any) -> Any:
    return metrics.high_confidence(probs, labels, threshold=0.5, **more).accuracy


def _event_nll(p: float, f: float) -> float:
    return -f * math.log(p) - (1 - f) * math.log1p(-p)


def _event_entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log1p(-p)


def _debiased_l2(gap: float, f: float, n: int) -> float:
    """Every residual of ``n`` but for the outcome the same: their variance is that of the outcomes."""
    return math.sqrt(max(0.0, gap**2 - f * (1 - f) / (n - 1)))


def _debiased_l1(gap: float, f: float, n: int) -> float:
    noise = math.sqrt(f * (1 - f) / (n - 1))
    folded = noise * math.sqrt(2 / math.pi) * math.exp(-((gap / noise) ** 2) / 2)
    return max(0.0, 2 * gap - folded - gap * math.erf(gap / noise / math.sqrt(2)))


def _miscalibration(probs: Any, labels: Any, **more: Any) -> Any:
    return metrics.score_decomposition(probs, labels, **more).miscalibration


def _divergence(p: float, f: float) -> float:
    return _event_nll(p, f) - _event_entropy(f)


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
        "classwise_mass",
        metrics.classwise_calibration_error,
        options={"binning": "mass"},
        replicates=False,
        **_EACH,
    ),
    # law_constant has ten samples of classes and seven of an event
    Metric(
        "ece_l2_debiased",
        metrics.expected_calibration_error,
        options={"norm": "l2", "debias": True},
        replicates=False,
        **_TOP
        | {
            "constant_classes": lambda q, f: _debiased_l2(abs(q.max() - f[q.argmax()]), f[q.argmax()], 10),
            "constant_event": lambda p, f: _debiased_l2(abs(p - f), f, 7),
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
            "constant_classes": lambda q, f: _debiased_l1(abs(q.max() - f[q.argmax()]), f[q.argmax()], 10),
            "constant_event": lambda p, f: _debiased_l1(abs(p - f), f, 7),
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
        _miscalibration,
        perfect=0.0,
        worst=1.0,
        worst_event=0.75,
        constant_classes=lambda q, f: (q.max() - f[q.argmax()]) ** 2,
        constant_event=lambda p, f: (p - f) ** 2,
    ),
    Metric(
        "miscalibration_nll",
        _miscalibration,
        options={"score": "nll"},
        perfect=0.0,
        worst=math.inf,
        worst_event=math.inf,
        constant_classes=lambda q, f: _divergence(q.max(), f[q.argmax()]),
        constant_event=_divergence,
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
        constant_event=_event_nll,
        upper_classes=math.inf,
        upper_event=math.inf,
    ),
    Metric(
        "brier",
        metrics.brier_score,
        perfect=0.0,
        worst=2.0,
        worst_event=1.0,
        constant_classes=lambda q, f: float((q**2).sum() - 2 * (f * q).sum() + 1),
        constant_event=lambda p, f: f * (1 - p) ** 2 + (1 - f) * p**2,
        upper_classes=2.0,
    ),
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
        constant_event=lambda p, _f: _event_entropy(p),
        upper_classes=math.inf,
        upper_event=math.log(2),
        per_label=False,
    ),
    Metric(
        "high_confidence_share",
        _share,
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
        needs_both=True,
    ),
)


# ------------------------------------------------------------------------------------------- streaming


@dataclass(frozen=True)
class Streaming:
    """A streaming class under one choice of options, and the function whose value it must have."""

    name: str
    cls: str
    function: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    function_options: Mapping[str, Any] | None = None
    """Options of the function, where they differ."""
    needs_both: bool = False
    """Undefined where all samples are of one class."""
    exact_streaming: bool = True
    """Equals the function; the others come within a bound that they state."""

    def build(self, task: str, num_classes: int, **more: Any) -> Any:
        """A new instance; torchmetrics is imported here at the earliest."""
        classes = None if task == "binary" else num_classes
        return getattr(metrics, self.cls)(task=task, num_classes=classes, **{**self.options, **more})

    def whole(self, probs: Any, labels: Any, **more: Any) -> Any:
        """The function on everything at once."""
        options = self.options if self.function_options is None else self.function_options
        return self.function(probs, labels, **options, **more)


_MASS = {"binning": "mass", "num_bins": 4}

STREAMING = (
    Streaming("ece", "CalibrationError", metrics.expected_calibration_error),
    Streaming(
        "ece_l2", "CalibrationError", metrics.expected_calibration_error, {"norm": "l2", "num_bins": 5}
    ),
    Streaming("ece_mass", "CalibrationError", metrics.expected_calibration_error, _MASS),
    Streaming("ece_mass_l2", "CalibrationError", metrics.expected_calibration_error, {**_MASS, "norm": "l2"}),
    Streaming(
        "ece_sketch",
        "CalibrationError",
        metrics.expected_calibration_error,
        {**_MASS, "keep": "sketch"},
        function_options=_MASS,
        exact_streaming=False,
    ),
    Streaming("mce", "MaximumCalibrationError", metrics.maximum_calibration_error),
    Streaming("mce_mass", "MaximumCalibrationError", metrics.maximum_calibration_error, _MASS),
    Streaming("classwise", "ClasswiseCalibrationError", metrics.classwise_calibration_error),
    Streaming("classwise_mass", "ClasswiseCalibrationError", metrics.classwise_calibration_error, _MASS),
    Streaming(
        "classwise_sketch",
        "ClasswiseCalibrationError",
        metrics.classwise_calibration_error,
        {**_MASS, "keep": "sketch"},
        function_options=_MASS,
        exact_streaming=False,
    ),
    Streaming("nll", "NegativeLogLikelihood", metrics.negative_log_likelihood),
    Streaming("brier", "BrierScore", metrics.brier_score),
    Streaming("accuracy", "Accuracy", metrics.accuracy),
    Streaming("error_rate", "ErrorRate", metrics.error_rate),
    Streaming("entropy", "PredictiveEntropy", metrics.predictive_entropy),
    Streaming(
        "entropy_correct",
        "PredictiveEntropy",
        metrics.predictive_entropy,
        {"among": "correct"},
        needs_both=True,
    ),
    Streaming("high_confidence_share", "HighConfidenceShare", _share, {"threshold": 0.5}, {}),
    Streaming(
        "high_confidence_accuracy", "HighConfidenceAccuracy", _confident_accuracy, {"threshold": 0.5}, {}
    ),
    Streaming("auroc", "AUROC", metrics.auroc, needs_both=True),
)
