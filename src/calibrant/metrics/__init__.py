"""How good are these probabilities? Functions of ``probs`` and ``labels``.

The shapes say what is judged: classes (``probs (N, C)``, ``labels (N,)``), an event (both ``(N,)``) or
several labels per sample (both ``(N, C)``). Of a segmentation, ``probs (N, C, d1, ...)`` with ``labels
(N, d1, ...)``, every position is a sample; leave out those to be ignored by
``probs.movedim(1, -1)[labels != 255], labels[labels != 255]``, or use the streaming classes. NumPy arrays and
torch tensors of any floating dtype are taken; values are float64 tensors. The classes in CapWords see the
data batch by batch; they are torchmetrics' and imported, with that package, where one of them is first used.
"""

from typing import TYPE_CHECKING

from calibrant._math.lazy import lazy_exports
from calibrant.metrics.brier import brier_score
from calibrant.metrics.canonical_error import canonical_calibration_error
from calibrant.metrics.classwise_error import classwise_calibration_error
from calibrant.metrics.confidence import HighConfidence, high_confidence
from calibrant.metrics.correctness import accuracy, error_rate
from calibrant.metrics.entropy import predictive_entropy
from calibrant.metrics.expected_error import adaptive_calibration_error, expected_calibration_error
from calibrant.metrics.kernel_error import SmoothReliabilityCurve, smooth_ece, smooth_reliability_curve
from calibrant.metrics.kolmogorov_smirnov import CumulativeTest, kolmogorov_smirnov_test, kuiper_test
from calibrant.metrics.likelihood import negative_log_likelihood
from calibrant.metrics.maximum_error import maximum_calibration_error
from calibrant.metrics.out_of_distribution import (
    OutOfDistributionDetection,
    RocCurve,
    out_of_distribution_detection,
    out_of_distribution_scores,
    roc_curve,
)
from calibrant.metrics.processing_gap import post_processing_gap
from calibrant.metrics.reliability import ReliabilityTable, reliability_table
from calibrant.metrics.roc import auroc
from calibrant.metrics.score_parts import (
    CorpReliabilityCurve,
    RefinementDecomposition,
    ScoreDecomposition,
    corp_reliability_curve,
    refinement_decomposition,
    score_decomposition,
)
from calibrant.metrics.selective import (
    RiskCoverageCurve,
    risk_coverage_area,
    risk_coverage_curve,
    selective_risk_curve,
)
from calibrant.metrics.signed_error import over_confidence_error, under_confidence_error
from calibrant.metrics.slope import CalibrationSlope, SlopeEstimate, calibration_slope
from calibrant.metrics.smooth_error import (
    SmoothCalibrationWitness,
    smooth_calibration_error,
    smooth_calibration_witness,
)
from calibrant.metrics.spiegelhalter import SpiegelhalterTest, spiegelhalter_test
from calibrant.metrics.squared_error import squared_calibration_error
from calibrant.metrics.sweep_error import monotone_num_bins, sweep_calibration_error
from calibrant.metrics.temperature_parts import TemperatureDecomposition, temperature_decomposition
from calibrant.metrics.thresholded_error import thresholded_calibration_error
from calibrant.metrics.top_k_error import top_k_calibration_error

if TYPE_CHECKING:
    from calibrant.metrics.streaming import (
        AUROC,
        Accuracy,
        BrierScore,
        CalibrationError,
        ClasswiseCalibrationError,
        ErrorRate,
        HighConfidenceAccuracy,
        HighConfidenceShare,
        MaximumCalibrationError,
        NegativeLogLikelihood,
        PredictiveEntropy,
    )

__all__ = [
    "AUROC",
    "Accuracy",
    "BrierScore",
    "CalibrationError",
    "CalibrationSlope",
    "ClasswiseCalibrationError",
    "CorpReliabilityCurve",
    "CumulativeTest",
    "ErrorRate",
    "HighConfidence",
    "HighConfidenceAccuracy",
    "HighConfidenceShare",
    "MaximumCalibrationError",
    "NegativeLogLikelihood",
    "OutOfDistributionDetection",
    "PredictiveEntropy",
    "RefinementDecomposition",
    "ReliabilityTable",
    "RiskCoverageCurve",
    "RocCurve",
    "ScoreDecomposition",
    "SlopeEstimate",
    "SmoothCalibrationWitness",
    "SmoothReliabilityCurve",
    "SpiegelhalterTest",
    "TemperatureDecomposition",
    "accuracy",
    "adaptive_calibration_error",
    "auroc",
    "brier_score",
    "calibration_slope",
    "canonical_calibration_error",
    "classwise_calibration_error",
    "corp_reliability_curve",
    "error_rate",
    "expected_calibration_error",
    "high_confidence",
    "kolmogorov_smirnov_test",
    "kuiper_test",
    "maximum_calibration_error",
    "monotone_num_bins",
    "negative_log_likelihood",
    "out_of_distribution_detection",
    "out_of_distribution_scores",
    "over_confidence_error",
    "post_processing_gap",
    "predictive_entropy",
    "refinement_decomposition",
    "reliability_table",
    "risk_coverage_area",
    "risk_coverage_curve",
    "roc_curve",
    "score_decomposition",
    "selective_risk_curve",
    "smooth_calibration_error",
    "smooth_calibration_witness",
    "smooth_ece",
    "smooth_reliability_curve",
    "spiegelhalter_test",
    "squared_calibration_error",
    "sweep_calibration_error",
    "temperature_decomposition",
    "thresholded_calibration_error",
    "top_k_calibration_error",
    "under_confidence_error",
]

# Whatever has not been imported is a streaming class.
__getattr__, __dir__ = lazy_exports(
    __name__, __all__, {"streaming": [name for name in __all__ if name not in globals()]}
)
