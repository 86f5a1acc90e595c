"""Typed columns, ``.parquet`` and ``.feather``; scores can be read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant._math.shapes import Float
from calibrant.predictions.formats.aliases import ColumnNames
from calibrant.predictions.formats.arrays import as_numpy
from calibrant.predictions.formats.columns import Column, columns_of, fields_of_cells, stacked
from calibrant.predictions.formats.contents import Arrays, FileContents, damaged
from calibrant.predictions.formats.tables import Table, layout_of_table, lists_of_scores
from calibrant.predictions.formats.top_k import holds_top_k
from calibrant.predictions.stores import PIECE

BUFFER = 1 << 16  # bytes of each column that are read ahead


def table(path: Path, columns: ColumnNames | None = None) -> Table:  # noqa: ARG001
    file = opened(path)  # while a column may be requested

    def read(name: str) -> Any:
        with _reading():
            column = file.read(columns=[name]).column(name)
        if len(column) != file.metadata.num_rows:
            cut = f"`{name}` holds {len(column)} of {file.metadata.num_rows} rows"
            raise InputError(damaged("a .parquet file", ValueError(cut)))
        return column

    return table_in(file.schema_arrow, read)


def table_in(schema: Any, read: Callable[[str], Any], keys: Sequence[str] = ()) -> Table:
    lists = {field.name: field.type for field in schema if is_list(field.type)}
    return Table(
        names=schema.names,
        column=lambda name: column_of(read(name)),
        lists=frozenset(lists),
        records=frozenset(name for name, kind in lists.items() if _types().is_struct(kind.value_type)),
        keys=keys,
    )


def whole_table(path: Path, *, feather: bool = False) -> Any:
    if not feather:
        with opened(path) as file, _reading():
            return file.read()
    from pyarrow.feather import read_table

    with _reading("a .feather file"):
        found = read_table(path, memory_map=False)
        found.validate(full=True)  # Arrow follows offsets that a damaged file sends out of bounds
        return found


def table_of_feather(path: Path, columns: ColumnNames | None = None) -> Table:  # noqa: ARG001
    found = whole_table(path, feather=True)
    return table_in(found.schema, found.column)


def write(arrays: Arrays, path: Path, *, feather: bool = False) -> None:
    import pyarrow

    columns = {
        name: pyarrow.array(cells if isinstance(cells, list) else as_numpy(cells))
        for name, cells in columns_of(arrays).items()
    }
    write_table(pyarrow.table(columns), path, feather=feather)


def write_table(table: Any, path: Path, *, feather: bool = False) -> None:
    from pyarrow.feather import write_feather
    from pyarrow.parquet import write_table as write_parquet

    (write_feather if feather else write_parquet)(table, path)


def stream(path: Path, columns: ColumnNames | None = None) -> FileContents:
    """Read the used columns; leave the scores in the file."""
    found = table(path)
    layout = layout_of_table(found, columns)
    rows = ParquetRows(path, tuple(layout.given[name] for name in layout.scores))
    return FileContents(fields=fields_of_cells(layout, found.column, rows))


def size_of_scores(path: Path, columns: ColumnNames | None = None) -> int:
    """Return the bytes of the scores, or 0 if they must be read whole (an event, several labels)."""
    found = table(path)
    if holds_top_k(found.names) or lists_of_scores(found, columns):
        return 0
    layout = layout_of_table(found, columns)
    if len(layout.scores) < 2 or len(layout.labels) > 1:
        return 0
    with opened(path, BUFFER) as file:
        try:
            row = sum(dtype_of([layout.given[name]], file.schema_arrow).itemsize for name in layout.scores)
        except InputError:  # texts may say numbers, too
            return 0
        return file.metadata.num_rows * row


class ParquetRows:
    """Columns of a Parquet file as a table, read forwards; a step back restarts at a row group."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        self._path = path
        self._names = list(names)
        with opened(path, BUFFER) as file:
            self._ends = np.cumsum(
                [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
            )
            self._dtype = dtype_of(names, file.schema_arrow)
        self.shape: tuple[int, int] = (int(self._ends[-1]) if len(self._ends) else 0, len(names))
        self.dtype: torch.dtype = torch.from_numpy(np.empty(0, self._dtype)).dtype
        self._batches: Iterator[Any] = iter(())
        self._held = np.empty((0, len(names)), self._dtype)
        self._at = -1  # row of the first one held

    def read(self, start: int, stop: int) -> Float[Tensor, "n C"]:
        group = int(np.searchsorted(self._ends, start, side="right"))
        first = int(self._ends[group - 1]) if group else 0
        if self._at < first or self._at > start:  # skip whole groups, or go back
            self._batches, self._at = self._from(group), first
            self._held = self._held[:0]
        parts: list[np.ndarray[Any, np.dtype[Any]]] = []
        while self._at < stop:
            if not len(self._held):
                self._held = self._rows_of(next(self._batches))
            here = slice(max(0, start - self._at), min(len(self._held), stop - self._at))
            if here.start < here.stop:
                parts.append(self._held[here])
            taken = max(1, min(len(self._held), stop - self._at))
            self._held, self._at = self._held[taken:], self._at + taken
        return torch.from_numpy(np.concatenate(parts))

    def _rows_of(self, batch: Any) -> np.ndarray[Any, np.dtype[Any]]:
        gaps: dict[str, list[Any]] = {}
        rows = stacked(self._names, lambda name: column_of(batch.column(name)), gaps)
        if gaps:
            name = next(iter(gaps))
            raise InputError(f"`{name}` must hold a number in every row; some are empty.")
        return rows.astype(self._dtype, copy=False)

    def _from(self, group: int) -> Iterator[Any]:
        size = max(1, PIECE // len(self._names))
        groups = list(range(group, len(self._ends)))
        with opened(self._path, BUFFER) as file, _reading():
            yield from file.iter_batches(size, row_groups=groups, columns=self._names)


def dtype_of(names: Sequence[str], schema: Any) -> np.dtype[Any]:
    """Return the float dtype of columns of numbers, or of lists of them."""
    return np.result_type(*[_float_dtype(name, schema.field(name).type) for name in names])


def _float_dtype(name: str, kind: Any) -> np.dtype[Any]:
    kind = kind.value_type if is_list(kind) else kind
    if _types().is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    if _types().is_integer(kind) or _types().is_boolean(kind) or _types().is_decimal(kind):
        return np.dtype(np.float64)
    raise InputError(f"`{name}` must hold numbers; its type is {kind}.")


def is_whole(schema: Any, name: str) -> bool:
    return name in schema.names and _types().is_integer(schema.field(name).type)


def values_of(file: Any, name: str) -> Iterator[tuple[Column, np.ndarray[Any, np.dtype[Any]]]]:
    """Yield the distinct values of a column per row group, with counts."""
    for group in range(file.metadata.num_row_groups):
        with _reading():
            found = file.read_row_group(group, columns=[name]).column(name).value_counts()
        yield column_of(found.field("values")), found.field("counts").to_numpy()


def _types() -> Any:
    from pyarrow import types

    return types


def is_list(kind: Any) -> bool:
    return _types().is_list(kind) or _types().is_large_list(kind) or _types().is_fixed_size_list(kind)


def column_of(column: Any) -> Column:
    """Return numbers, or lists of equal length, as an array; everything else as cells."""
    with _reading():
        kind, gaps = column.type, column.null_count
        if is_list(kind):
            return _rows_of_lists(column)
        if _types().is_decimal(kind) and not gaps:
            numbers = np.array([float(each) for each in column.to_pylist()])
            whole = numbers.astype(np.int64)  # such as labels of a database
            return whole if (whole == numbers).all() else numbers
        numeric = _types().is_integer(kind) or _types().is_floating(kind) or _types().is_boolean(kind)
        return column.to_numpy(zero_copy_only=False) if numeric and not gaps else column.to_pylist()


def _rows_of_lists(column: Any) -> Column:
    rows = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    flat, lengths = rows.flatten(), rows.value_lengths().unique()
    numeric = _types().is_integer(flat.type) or _types().is_floating(flat.type)
    if not numeric or flat.null_count or rows.null_count or len(lengths) != 1:
        return rows.to_pylist()
    return np.array(flat.to_numpy(zero_copy_only=False)).reshape(len(rows), lengths[0].as_py())


def opened(path: Any, read_ahead: int = 0, *, footer: Any = None) -> Any:
    """Open a file or stream with limited read-ahead; a known ``footer`` is not read again."""
    from pyarrow import parquet

    with _reading():
        return parquet.ParquetFile(path, metadata=footer, buffer_size=read_ahead, pre_buffer=False)


@contextmanager
def _reading(what: str = "a .parquet file") -> Generator[None]:
    try:
        yield
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(damaged(what, error)) from error
