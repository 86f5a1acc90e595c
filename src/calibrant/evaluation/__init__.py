"""Evaluation of calibration: errors with their uncertainty, and the repair to use. One call, frozen data."""

from typing import TYPE_CHECKING

from calibrant._math.lazy import lazy_exports

if TYPE_CHECKING:
    from calibrant.evaluation.comparison import compare
    from calibrant.evaluation.dense.images import ImageRow, image_rows
    from calibrant.evaluation.detection import DetectionError, detection_calibration_error
    from calibrant.evaluation.gate.check import check
    from calibrant.evaluation.gate.result import Check, GateResult
    from calibrant.evaluation.judging.reliability import smooth_consistency_band
    from calibrant.evaluation.monitoring.monitor import monitor
    from calibrant.evaluation.monitoring.result import Monitoring
    from calibrant.evaluation.pipeline import evaluate
    from calibrant.evaluation.resampling.chance import (
        NullDistribution,
        PairedTest,
        null_distribution,
        paired_test,
    )
    from calibrant.evaluation.result import Comparison, Evaluation

__all__ = [
    "Check",
    "Comparison",
    "DetectionError",
    "Evaluation",
    "GateResult",
    "ImageRow",
    "Monitoring",
    "NullDistribution",
    "PairedTest",
    "check",
    "compare",
    "detection_calibration_error",
    "evaluate",
    "image_rows",
    "monitor",
    "null_distribution",
    "paired_test",
    "smooth_consistency_band",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    __all__,
    {
        "comparison": ["compare"],
        "dense.images": ["ImageRow", "image_rows"],
        "detection": ["DetectionError", "detection_calibration_error"],
        "gate.check": ["check"],
        "gate.result": ["Check", "GateResult"],
        "judging.reliability": ["smooth_consistency_band"],
        "monitoring.monitor": ["monitor"],
        "monitoring.result": ["Monitoring"],
        "pipeline": ["evaluate"],
        "resampling.chance": ["NullDistribution", "PairedTest", "null_distribution", "paired_test"],
        "result": ["Comparison", "Evaluation"],
    },
)
