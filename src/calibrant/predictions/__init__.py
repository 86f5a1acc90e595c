"""What a classifier said: one table of scores and labels, and the files that hold it."""

from __future__ import annotations

from calibrant.predictions.checks import Kind
from calibrant.predictions.files import load_predictions
from calibrant.predictions.table import Predictions, Source

__all__ = ["Kind", "Predictions", "Source", "load_predictions"]
