"""The metrics as classes that see the data batch by batch, on torchmetrics' ``Metric``.

Each is named after its function and, whatever the batches and the processes, has the value of that function
on all samples together, to rounding: sums are float64 and stay so. Imported when first used, with
torchmetrics.
"""

from calibrant.metrics.streaming.bins import (
    CalibrationError,
    ClasswiseCalibrationError,
    MaximumCalibrationError,
)
from calibrant.metrics.streaming.means import (
    Accuracy,
    BrierScore,
    ErrorRate,
    HighConfidenceAccuracy,
    HighConfidenceShare,
    NegativeLogLikelihood,
    PredictiveEntropy,
)
from calibrant.metrics.streaming.ranks import AUROC

__all__ = [
    "AUROC",
    "Accuracy",
    "BrierScore",
    "CalibrationError",
    "ClasswiseCalibrationError",
    "ErrorRate",
    "HighConfidenceAccuracy",
    "HighConfidenceShare",
    "MaximumCalibrationError",
    "NegativeLogLikelihood",
    "PredictiveEntropy",
]
