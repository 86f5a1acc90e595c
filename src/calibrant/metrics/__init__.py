"""How good are these probabilities? Functions of ``probs`` and ``labels``.

The shapes say what is judged: classes (``probs (N, C)``, ``labels (N,)``), an event (both ``(N,)``) or
several labels per sample (both ``(N, C)``). NumPy arrays and torch tensors of any floating dtype are taken;
values are float64 tensors. The classes in CapWords see the data batch by batch; they are torchmetrics' and
imported, with that package, where one of them is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from calibrant.metrics.brier import brier_score
from calibrant.metrics.canonical_error import canonical_calibration_error
from calibrant.metrics.classwise_error import classwise_calibration_error
from calibrant.metrics.confidence import HighConfidence, high_confidence
from calibrant.metrics.correctness import accuracy, error_rate
from calibrant.metrics.entropy import predictive_entropy
from calibrant.metrics.expected_error import (
    adaptive_calibration_error,
    expected_calibration_error,
)
from calibrant.metrics.kernel_error import SmoothReliabilityCurve, smooth_ece, smooth_reliability_curve
from calibrant.metrics.likelihood import negative_log_likelihood
from calibrant.metrics.maximum_error import maximum_calibration_error
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
from calibrant.metrics.signed_error import over_confidence_error, under_confidence_error
from calibrant.metrics.smooth_error import (
    SmoothCalibrationWitness,
    smooth_calibration_error,
    smooth_calibration_witness,
)
from calibrant.metrics.squared_error import squared_calibration_error
from calibrant.metrics.sweep_error import monotone_num_bins, sweep_calibration_error
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
    "ClasswiseCalibrationError",
    "CorpReliabilityCurve",
    "ErrorRate",
    "HighConfidence",
    "HighConfidenceAccuracy",
    "HighConfidenceShare",
    "MaximumCalibrationError",
    "NegativeLogLikelihood",
    "PredictiveEntropy",
    "RefinementDecomposition",
    "ReliabilityTable",
    "ScoreDecomposition",
    "SmoothCalibrationWitness",
    "SmoothReliabilityCurve",
    "accuracy",
    "adaptive_calibration_error",
    "auroc",
    "brier_score",
    "canonical_calibration_error",
    "classwise_calibration_error",
    "corp_reliability_curve",
    "error_rate",
    "expected_calibration_error",
    "high_confidence",
    "maximum_calibration_error",
    "monotone_num_bins",
    "negative_log_likelihood",
    "over_confidence_error",
    "post_processing_gap",
    "predictive_entropy",
    "refinement_decomposition",
    "reliability_table",
    "score_decomposition",
    "smooth_calibration_error",
    "smooth_calibration_witness",
    "smooth_ece",
    "smooth_reliability_curve",
    "squared_calibration_error",
    "sweep_calibration_error",
    "thresholded_calibration_error",
    "top_k_calibration_error",
    "under_confidence_error",
]


def __getattr__(name: str) -> object:
    if name in __all__:  # and not yet here: one of the streaming classes
        return getattr(import_module("calibrant.metrics.streaming"), name)
    msg = f"module 'calibrant.metrics' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
