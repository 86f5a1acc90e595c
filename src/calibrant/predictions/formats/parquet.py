"""Typed columns, ``.parquet`` and ``.feather``; those of scores can be read some rows at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant._math.shapes import Float
from calibrant.predictions.formats import columns as of_columns
from calibrant.predictions.formats.aliases import ColumnNames, space_of
from calibrant.predictions.formats.arrays import as_numpy
from calibrant.predictions.formats.columns import (
    FAMILIES,
    Column,
    Layout,
    columns_of,
    fields_of_cells,
    fields_of_columns,
)
from calibrant.predictions.formats.contents import Arrays, FileContents, damaged
from calibrant.predictions.formats.json_file import fields_of_lists
from calibrant.predictions.formats.numbers import numbers_in
from calibrant.predictions.formats.top_k import fields_of_top_k, holds_top_k
from calibrant.predictions.stores import PIECE

BUFFER = 1 << 16  # bytes of each column that are read ahead
_TURNED = 32  # columns


def read(path: Path, columns: ColumnNames | None = None) -> FileContents:
    """Read those columns that are used."""
    with opened(path) as file:
        return FileContents(fields=fields_in(file, columns))


def fields_in(file: Any, columns: ColumnNames | None, keys: Iterable[str] = ()) -> dict[str, Any]:
    """The arguments of ``Predictions`` from an open file, of whose columns some are keys of folders."""
    schema = file.schema_arrow  # made anew whenever it is asked for
    if holds_top_k(schema.names):
        return fields_of_top_k(schema.names, lambda name: _cells(file, name), columns)
    if (lists := lists_in(schema, columns)) is not None:
        others = [name for name in schema.names if name != lists]
        cells = {name: _cells(file, name) for name in (lists, *others)}
        with _reading():
            records = file.read(columns=others).to_pylist() if columns else []
        return fields_of_lists(cells, records, columns)
    layout, given = layout_in(file, columns, keys)
    found = [given[name] for name in layout.scores]
    if any(_is_text(name, schema) for name in found):
        with _reading():
            return fields_of_cells(
                layout,
                given,
                lambda name: _column(name, file).to_pylist(),
                lambda name: column_of(_column(name, file)),
            )
    scores = np.empty((file.metadata.num_rows, len(found)), dtype_of(found, file))
    for index, name in enumerate(found):  # one at a time: memory never holds the table twice
        scores[:, index] = _numbers(name, file)
    return fields_of_columns(layout, scores, _other_columns(layout, file, given))


def records_of(path: Path, *, feather: bool = False) -> tuple[list[dict[str, Any]], list[int]]:
    """Rows by the names of the columns; they stand on no lines."""
    return whole_table(path, feather=feather).to_pylist(), []


def whole_table(path: Path, *, feather: bool = False) -> Any:
    """All columns, as pyarrow has them."""
    if not feather:
        with opened(path) as file, _reading():
            return file.read()
    from pyarrow.feather import read_table

    with _reading("a .feather file"):
        return read_table(path, memory_map=False)


def write(arrays: Arrays, path: Path, *, feather: bool = False) -> None:
    """Write typed columns."""
    import pyarrow

    table = columns_of(arrays)
    scores = as_numpy(table.scores)
    columns: dict[str, Any] = {name: pyarrow.array(column) for name, column in table.others.items()}
    columns |= {name: pyarrow.array(scores[:, index]) for index, name in enumerate(table.score_names)}
    write_table(pyarrow.table(columns), path, feather=feather)


def write_table(table: Any, path: Path, *, feather: bool = False) -> None:
    """Write what pyarrow has."""
    from pyarrow.feather import write_feather
    from pyarrow.parquet import write_table as write_parquet

    (write_feather if feather else write_parquet)(table, path)


class TableInMemory:
    """A table that is read whole, by what pyarrow's files of Parquet offer."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.schema_arrow = table.schema
        self.metadata = SimpleNamespace(num_rows=table.num_rows)

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """Some columns, or all."""
        return self._table if columns is None else self._table.select(columns)


def read_feather(path: Path, columns: ColumnNames | None = None) -> FileContents:
    """Read those columns of ``.feather`` and ``.arrow`` that are used."""
    return FileContents(fields=fields_in(TableInMemory(whole_table(path, feather=True)), columns))


def stream(path: Path, columns: ColumnNames | None = None) -> FileContents:
    """Read those columns that are used; the scores stay in the file."""
    with opened(path, BUFFER) as file:
        layout, given = layout_in(file, columns)
        others = _other_columns(layout, file, given)
    rows = ParquetRows(path, tuple(given[name] for name in layout.scores))
    return FileContents(fields=fields_of_columns(layout, rows, others))


def size_of_scores(path: Path, columns: ColumnNames | None = None) -> int:
    """Bytes of the scores, or 0 where they can only be read whole (an event, several labels per sample)."""
    with opened(path, BUFFER) as file:
        if holds_top_k(file.schema_arrow.names) or lists_in(file.schema_arrow, columns) is not None:
            return 0
        layout, given = layout_in(file, columns)
        schema = file.schema_arrow
        if len(layout.scores) < 2 or len(layout.labels) > 1:
            return 0
        if any(_is_text(given[name], schema) for name in layout.scores):
            return 0
        return file.metadata.num_rows * sum(
            _float_dtype(given[name], schema).itemsize for name in layout.scores
        )


class ParquetRows:
    """Some columns of a Parquet file as a table, read forwards; going back starts anew at a row group."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        self._path = path
        self._names = list(names)
        with opened(path, BUFFER) as file:
            self._ends = np.cumsum(
                [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
            )
            self._dtype = dtype_of(names, file)
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
                self._held = rows_of(next(self._batches), self._names, self._dtype)
            here = slice(max(0, start - self._at), min(len(self._held), stop - self._at))
            if here.start < here.stop:
                parts.append(self._held[here])
            taken = max(1, min(len(self._held), stop - self._at))
            self._held, self._at = self._held[taken:], self._at + taken
        return torch.from_numpy(np.concatenate(parts))

    def _from(self, group: int) -> Iterator[Any]:
        size = max(1, PIECE // len(self._names))
        groups = list(range(group, len(self._ends)))
        with opened(self._path, BUFFER) as file, _reading():
            yield from file.iter_batches(size, row_groups=groups, columns=self._names)


def rows_of(batch: Any, names: Sequence[str], dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Some columns of a batch as rows."""
    table = np.empty((batch.num_rows, len(names)), dtype)
    for start in range(0, len(names), _TURNED):  # a column alone is slow to scatter
        some = names[start : start + _TURNED]
        turned = np.empty((len(some), batch.num_rows), dtype)
        for index, name in enumerate(some):
            column = batch.column(name)
            if column.null_count > 0:
                raise InputError(f"`{name}` must hold a number in every row; some are empty.")
            turned[index] = column.to_numpy(zero_copy_only=False)
        table[:, start : start + _TURNED] = turned.T
    return table


def dtype_of(names: Sequence[str], file: Any) -> np.dtype[Any]:
    """The float dtype that holds some columns of numbers, or lists of them."""
    schema = file.schema_arrow
    return np.result_type(*[_float_dtype(name, schema) for name in names])


def layout_in(
    file: Any, columns: ColumnNames | None, keys: Iterable[str] = ()
) -> tuple[Layout, dict[str, str]]:
    """What the columns and keys hold, and what each is called in the file; lists count as columns."""
    given: list[str] = file.schema_arrow.names
    if (lists := lists_in(file.schema_arrow, columns)) is not None:
        place, family = given.index(lists), FAMILIES[space_of(lists) or ""]
        given[place : place + 1] = [f"{family}_{k}" for k in range(length_of_lists(file, lists))]
    keys = list(keys)
    given += [key for key in keys if key not in given]
    layout, names = of_columns.layout_in(given, columns)
    if wrong := next((names[each] for each in layout.scores if names[each] in keys), None):
        raise InputError(
            f"`{wrong}` must not be what folders are named by: scores are columns of the files; rename them."
        )
    return layout, names


def values_of(file: Any, name: str) -> Iterator[tuple[Column, np.ndarray[Any, np.dtype[Any]]]]:
    """The different values of a column in each row group, and how often each occurs; others are not read."""
    for group in range(file.metadata.num_row_groups):
        with _reading():
            found = file.read_row_group(group, columns=[name]).column(name).value_counts()
        yield column_of(found.field("values")), found.field("counts").to_numpy()


def is_whole(file: Any, name: str) -> bool:
    """Whether a column holds integers."""
    schema = file.schema_arrow
    return name in schema.names and _types().is_integer(schema.field(name).type)


def _other_columns(layout: Layout, file: Any, given: Mapping[str, str]) -> dict[str, Column]:
    names = {name: given[name] for name in (*layout.others, *layout.weights)}
    with _reading():
        found = {name: column_of(_column(each, file)) for name, each in names.items()}
    return found | {name: numbers_of(found[name], given[name]) for name in layout.weights}


def _float_dtype(name: str, schema: Any) -> np.dtype[Any]:
    given = schema.field(name).type
    if _is_list(given):
        given = given.value_type
    if _types().is_floating(given):
        return np.dtype(given.to_pandas_dtype())
    if _types().is_integer(given) or _types().is_boolean(given) or _types().is_decimal(given):
        return np.dtype(np.float64)
    raise InputError(f"`{name}` must hold numbers; its type is {given}.")


def _numbers(name: str, file: Any) -> np.ndarray[Any, np.dtype[Any]]:
    column = _column(name, file)
    with _reading():
        if column.null_count > 0:
            row = column.is_null().to_pylist().index(True)
            raise InputError(f"`{name}` must hold a number in every row; row {row} is empty.")
        return column.to_numpy()


def _column(name: str, file: Any) -> Any:
    """A column as pyarrow has it, with an entry in every row."""
    with _reading():
        column = file.read(columns=[name]).column(name)
    if len(column) != file.metadata.num_rows:
        cut = f"`{name}` holds {len(column)} of {file.metadata.num_rows} rows"
        raise InputError(damaged("a .parquet file", ValueError(cut)))
    return column


def numbers_of(column: Column, name: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Numbers as they are, or as texts say them, such as 0.5 where folders are named by weight."""
    return numbers_in({name: column}, (), "")[0][name] if isinstance(column, list) else column


def _types() -> Any:
    """Pyarrow's own tests; it takes a moment to import."""
    from pyarrow import types

    return types


def _is_text(name: str, schema: Any) -> bool:
    given = schema.field(name).type
    return _types().is_string(given) or _types().is_large_string(given) or _types().is_string_view(given)


def _cells(file: Any, name: str) -> Any:
    """A column of numbers or texts, or of lists that are as long in every row."""
    with _reading():
        return cells_of(_column(name, file).combine_chunks())


def cells_of(column: Any) -> Any:
    """Numbers, texts or lists of equal length of a column in memory."""
    if not _is_list(column.type):
        return column_of(column)
    flat = column.flatten()
    if _types().is_struct(flat.type) or column.null_count or len(column) == 0 or len(flat) % len(column):
        return column.to_pylist()
    if not _types().is_fixed_size_list(column.type):
        sizes = np.diff(column.offsets.to_numpy())
        if (sizes != sizes[0]).any():
            return column.to_pylist()
    texts = _types().is_string(flat.type) or _types().is_large_string(flat.type)
    cells = np.array(flat.to_pylist() if texts else flat.to_numpy(zero_copy_only=False))
    return cells.reshape(len(column), -1)


def _is_list(kind: Any) -> bool:
    return _types().is_list(kind) or _types().is_large_list(kind) or _types().is_fixed_size_list(kind)


def length_of_lists(file: Any, name: str) -> int:
    """How many scores the first row holds."""
    with _reading():
        for batch in file.iter_batches(1, columns=[name]):
            first = batch.column(name)[0].as_py()
            return len(first) if hasattr(first, "__len__") else 0
    return 0


def lists_of(batch: Any, name: str, length: int, dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """A column of lists as rows; all have the same length."""
    column = batch.column(name)
    sizes = column.value_lengths()
    if column.null_count or sizes.unique().to_pylist() != [length]:
        wrong = next(k for k, size in enumerate(sizes.to_pylist()) if size != length)
        said = column[wrong].as_py()
        raise InputError(
            f"`{name}` must hold {length} numbers in every row, as in the first; row {wrong} holds "
            f"{'none' if said is None else len(said)}."
        )
    flat = column.flatten()
    if flat.null_count:
        raise InputError(f"`{name}` must hold a number for every class; some are empty.")
    return np.array(flat.to_numpy(zero_copy_only=False), dtype).reshape(-1, length)


def lists_in(schema: Any, columns: ColumnNames | None) -> str | None:
    """The column whose cells hold the scores of all classes."""
    if columns is not None and (columns.probs or columns.logits):
        return None
    named = (name for name in schema.names if space_of(name) and schema.names.count(name) == 1)
    return next((name for name in named if _is_list(schema.field(name).type)), None)


def column_of(column: Any) -> Column:
    """Numbers as an array; everything else, and what has gaps, as texts."""
    if _types().is_decimal(column.type) and column.null_count == 0:
        numbers = np.array([float(each) for each in column.to_pylist()])
        whole = numbers.astype(np.int64)  # as labels of a database are
        return whole if (whole == numbers).all() else numbers
    numeric = (
        _types().is_integer(column.type)
        or _types().is_floating(column.type)
        or _types().is_boolean(column.type)
    )
    if numeric and column.null_count == 0:
        return column.to_numpy(zero_copy_only=False)  # booleans are bits
    return ["" if value is None else str(value) for value in column.to_pylist()]


def opened(path: Any, read_ahead: int = 0, *, footer: Any = None) -> Any:
    """The file, by path or as a stream; a limit on what is read ahead matters where columns are many.

    Where its ``footer`` is known it is not read again: that of a thousand columns takes a while.
    """
    from pyarrow import parquet

    with _reading():
        return parquet.ParquetFile(path, metadata=footer, buffer_size=read_ahead, pre_buffer=False)


@contextmanager
def _reading(what: str = "a .parquet file") -> Generator[None]:
    """What pyarrow raises at damaged bytes, in a sentence."""
    try:
        yield
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(damaged(what, error)) from error
