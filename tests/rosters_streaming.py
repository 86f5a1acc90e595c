"""The streaming metrics, each with the function whose value it must have.

One entry here, and every law of ``tests/metrics/test_streaming.py`` is tested.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from calibrant import metrics
from rosters import part


@dataclass(frozen=True)
class Streaming:
    """A streaming class under one choice of options, and the function whose value it must have."""

    name: str
    cls: str
    function: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    function_options: Mapping[str, Any] | None = None
    """Options of the function, where they differ."""
    needs_a_kind: bool = False
    """Undefined where no sample is of the kind that it needs."""
    keeps_rows: bool = False
    """Its state grows with the stream."""
    exact_streaming: bool = True
    """Equals the function; the others come within a bound that they state."""

    def build(self, task: str, num_classes: int, **more: Any) -> Any:
        """A new instance; torchmetrics is imported here at the earliest."""
        classes = None if task == "binary" else num_classes
        return getattr(metrics, self.cls)(task=task, num_classes=classes, **{**self.options, **more})

    def whole(self, probs: Any, labels: Any, **more: Any) -> Any:
        options = self.options if self.function_options is None else self.function_options
        return self.function(probs, labels, **options, **more)


_MASS = {"binning": "mass", "num_bins": 4}
_ECE = ("CalibrationError", metrics.expected_calibration_error)
_CLASSWISE = ("ClasswiseCalibrationError", metrics.classwise_calibration_error)
_MCE = ("MaximumCalibrationError", metrics.maximum_calibration_error)

STREAMING = (
    Streaming("ece", *_ECE),
    Streaming("ece_l2", *_ECE, {"norm": "l2", "num_bins": 5}),
    Streaming("ece_mass", *_ECE, _MASS, keeps_rows=True),
    Streaming(
        "ece_mass_l2",
        *_ECE,
        {**_MASS, "norm": "l2"},
        keeps_rows=True,
    ),
    Streaming(
        "ece_sketch",
        *_ECE,
        {**_MASS, "keep": "sketch"},
        function_options=_MASS,
        exact_streaming=False,
    ),
    Streaming("mce", *_MCE),
    Streaming("mce_mass", *_MCE, _MASS, keeps_rows=True),
    Streaming("classwise", *_CLASSWISE),
    Streaming(
        "classwise_mass",
        *_CLASSWISE,
        _MASS,
        keeps_rows=True,
    ),
    Streaming(
        "classwise_sketch",
        *_CLASSWISE,
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
        needs_a_kind=True,
    ),
    Streaming(
        "high_confidence_share",
        "HighConfidenceShare",
        part(metrics.high_confidence, "share"),
        {"threshold": 0.5},
    ),
    Streaming(
        "high_confidence_accuracy",
        "HighConfidenceAccuracy",
        part(metrics.high_confidence, "accuracy"),
        {"threshold": 0.5},
        needs_a_kind=True,
    ),
    Streaming("auroc", "AUROC", metrics.auroc, needs_a_kind=True, keeps_rows=True),
)
