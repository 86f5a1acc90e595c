"""Open a file to fit on: samples in memory, a table in parts, or images."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.predictions import DensePredictions, Predictions, load_dense, open_predictions
from calibrant.predictions.dense import is_dense
from calibrant.predictions.formats import parquet
from calibrant.predictions.formats.parquet_files import is_partitioned
from calibrant.predictions.partitioned import NeedsWholeError, PartitionedPredictions

MOST_HELD = 1 << 22
"""Rows of a Parquet file of which some numbers each are kept; larger ones are read part by part."""


def is_large(path: Path) -> bool:
    """Return True if a Parquet file has more than `MOST_HELD` rows; False if it is damaged."""
    try:
        with parquet.opened(path) as file:
            return file.metadata.num_rows > MOST_HELD
    except InputError:
        return False


def opened(path: Path, *, whole: bool) -> Predictions | DensePredictions | PartitionedPredictions:
    """Return the predictions of a file; tables are in memory if ``whole``."""
    if is_dense(path):
        return load_dense(path)
    if not whole and (is_partitioned(path) or (path.suffix.lower() == ".parquet" and is_large(path))):
        with suppress(NeedsWholeError):
            return PartitionedPredictions(path)
    return open_predictions(path)
