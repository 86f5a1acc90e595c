"""Parquet files whose columns of scores are read some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant.predictions.array_files import DAMAGE, damaged
from calibrant.predictions.checks import Kind
from calibrant.predictions.chunks import PIECE, StreamedPredictions
from calibrant.predictions.column_files import as_column, float_dtype, number_column, parquet_module
from calibrant.predictions.columns import Layout, layout_of, predictions_of
from calibrant.predictions.table import Predictions, Source

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

BUFFER = 1 << 16  # bytes of each column that are read ahead


class ParquetRows:
    """Some columns of a Parquet file as a table, read forwards; going back starts anew at a row group."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        self._path = path
        self._names = list(names)
        with _opened(path) as file:
            self._ends = np.cumsum(
                [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
            )
            dtypes = [float_dtype(name, file.schema_arrow.field(name).type) for name in names]
        self._dtype = np.result_type(*dtypes)
        self.shape: tuple[int, int] = (int(self._ends[-1]) if len(self._ends) else 0, len(names))
        self.dtype: torch.dtype = torch.from_numpy(np.empty(0, self._dtype)).dtype
        self._batches: Iterator[Any] = iter(())
        self._held = np.empty((0, len(names)), self._dtype)
        self._at = -1  # row of the first one held

    def read(self, start: int, stop: int) -> Float[Tensor, "n C"]:
        """Some consecutive rows."""
        group = int(np.searchsorted(self._ends, start, side="right"))
        first = int(self._ends[group - 1]) if group else 0
        if self._at < first or self._at > start:  # skip whole groups, or go back
            self._batches, self._at = self._from(group), first
            self._held = self._held[:0]
        parts: list[np.ndarray[Any, np.dtype[Any]]] = []
        while self._at < stop:
            if not len(self._held):
                self._held = self._table(next(self._batches))
            here = slice(max(0, start - self._at), min(len(self._held), stop - self._at))
            if here.start < here.stop:
                parts.append(self._held[here])
            taken = max(1, min(len(self._held), stop - self._at))
            self._held, self._at = self._held[taken:], self._at + taken
        return torch.from_numpy(np.concatenate(parts))

    def _from(self, group: int) -> Iterator[Any]:
        """Batches from the beginning of a row group on."""
        size = max(1, PIECE // len(self._names))
        groups = list(range(group, len(self._ends)))
        with _opened(self._path) as file:
            try:
                yield from file.iter_batches(size, row_groups=groups, columns=self._names)
            except DAMAGE as error:
                raise InputError(damaged("a .parquet file", error)) from error

    def _table(self, batch: Any) -> np.ndarray[Any, np.dtype[Any]]:
        """A batch of columns as rows."""
        table = np.empty((batch.num_rows, len(self._names)), self._dtype)
        for index, name in enumerate(self._names):
            column = batch.column(name)
            if column.null_count > 0:
                raise InputError(f"`{name}` must hold a number in every row; some are empty.")
            table[:, index] = column.to_numpy(zero_copy_only=False)
        return table


def stream_parquet(path: Path, source: Source, kind: Kind | None) -> Predictions:
    """Predictions whose scores stay in the file."""
    with _opened(path) as file:
        layout = layout_of(file.schema_arrow.names)
        weights = {name: number_column(name, file) for name in layout.weights}
        others = {name: as_column(file.read(columns=[name]).column(name)) for name in layout.others}
    rows: Any = ParquetRows(path, layout.scores)
    return predictions_of(layout, rows, others | weights, source=source, kind=kind, make=StreamedPredictions)


def size_of_scores(path: Path) -> int:
    """Bytes of the scores, or 0 where they can only be read whole (an event, several labels per sample)."""
    with _opened(path) as file:
        layout: Layout = layout_of(file.schema_arrow.names)
        if len(layout.scores) < 2 or len(layout.labels) > 1:
            return 0
        dtypes = [float_dtype(name, file.schema_arrow.field(name).type) for name in layout.scores]
        return file.metadata.num_rows * sum(dtype.itemsize for dtype in dtypes)


def _opened(path: Path) -> Any:
    """The file with little read ahead: a thousand columns each have a buffer."""
    parquet = parquet_module()
    try:
        return parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
    except DAMAGE as error:
        raise InputError(damaged("a .parquet file", error)) from error
