"""Evaluation of calibration: errors with their uncertainty, and the repair to use. One call, frozen data."""

from typing import TYPE_CHECKING

from calibrant._math.lazy import declared_exports

if TYPE_CHECKING:
    from calibrant.evaluation.comparison import compare as compare
    from calibrant.evaluation.dense.images import ImageRow as ImageRow
    from calibrant.evaluation.dense.images import image_rows as image_rows
    from calibrant.evaluation.detection import DetectionError as DetectionError
    from calibrant.evaluation.detection import detection_calibration_error as detection_calibration_error
    from calibrant.evaluation.gate.check import check as check
    from calibrant.evaluation.gate.result import Check as Check
    from calibrant.evaluation.gate.result import GateResult as GateResult
    from calibrant.evaluation.judging.diagrams import smooth_consistency_band as smooth_consistency_band
    from calibrant.evaluation.monitoring.monitor import monitor as monitor
    from calibrant.evaluation.monitoring.result import Monitoring as Monitoring
    from calibrant.evaluation.pipeline import evaluate as evaluate
    from calibrant.evaluation.resampling.chance import NullDistribution as NullDistribution
    from calibrant.evaluation.resampling.chance import PairedTest as PairedTest
    from calibrant.evaluation.resampling.chance import null_distribution as null_distribution
    from calibrant.evaluation.resampling.chance import paired_test as paired_test
    from calibrant.evaluation.result import Comparison as Comparison
    from calibrant.evaluation.result import Evaluation as Evaluation

__getattr__, __dir__, __all__ = declared_exports(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
