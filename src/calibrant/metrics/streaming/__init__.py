"""The metrics as classes that see the data batch by batch, on torchmetrics' ``Metric``.

Each is named after its function and, whatever the batches and the processes, has the value of that function
on all samples together, to rounding: sums are float64 and stay so. Imported when first used, with
torchmetrics.
"""

from calibrant.metrics.streaming.bins import CalibrationError as CalibrationError
from calibrant.metrics.streaming.bins import ClasswiseCalibrationError as ClasswiseCalibrationError
from calibrant.metrics.streaming.bins import MaximumCalibrationError as MaximumCalibrationError
from calibrant.metrics.streaming.means import Accuracy as Accuracy
from calibrant.metrics.streaming.means import BrierScore as BrierScore
from calibrant.metrics.streaming.means import ErrorRate as ErrorRate
from calibrant.metrics.streaming.means import HighConfidenceAccuracy as HighConfidenceAccuracy
from calibrant.metrics.streaming.means import HighConfidenceShare as HighConfidenceShare
from calibrant.metrics.streaming.means import NegativeLogLikelihood as NegativeLogLikelihood
from calibrant.metrics.streaming.means import PredictiveEntropy as PredictiveEntropy
from calibrant.metrics.streaming.ranks import AUROC as AUROC
