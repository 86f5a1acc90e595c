"""A classifier's predictions: one table of scores and labels, and the files that hold it."""

from calibrant._math.top_k import TopK, top_k_of
from calibrant.predictions.bands import bands_of
from calibrant.predictions.checks import Kind
from calibrant.predictions.dense import DensePredictions, load_dense, predictions_of_positions
from calibrant.predictions.detections import Detections, load_detections
from calibrant.predictions.files import (
    load_predictions,
    open_predictions,
    predictions_from_frame,
    predictions_to_frame,
)
from calibrant.predictions.formats.aliases import ColumnNames
from calibrant.predictions.formats.mark import Source
from calibrant.predictions.partitioned import PartitionedPredictions
from calibrant.predictions.stores import ScoreFile
from calibrant.predictions.table import Predictions
from calibrant.predictions.top_k import predictions_of_top_k

StreamedPredictions = Predictions
"""The former name for predictions whose scores stay in their file; ``Predictions.streamed`` tells them."""

__all__ = [
    "ColumnNames",
    "DensePredictions",
    "Detections",
    "Kind",
    "PartitionedPredictions",
    "Predictions",
    "ScoreFile",
    "Source",
    "StreamedPredictions",
    "TopK",
    "bands_of",
    "load_dense",
    "load_detections",
    "load_predictions",
    "open_predictions",
    "predictions_from_frame",
    "predictions_of_positions",
    "predictions_of_top_k",
    "predictions_to_frame",
    "top_k_of",
]
