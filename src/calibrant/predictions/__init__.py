"""What a classifier said: one table of scores and labels, and the files that hold it."""

from __future__ import annotations

from calibrant.predictions.checks import Kind
from calibrant.predictions.chunks import StreamedPredictions
from calibrant.predictions.chunks_files import open_predictions
from calibrant.predictions.files import load_predictions
from calibrant.predictions.positions import predictions_of_positions
from calibrant.predictions.table import Predictions, Source

__all__ = [
    "Kind",
    "Predictions",
    "Source",
    "StreamedPredictions",
    "load_predictions",
    "open_predictions",
    "predictions_of_positions",
]
