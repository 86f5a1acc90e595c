"""Files of columns: ``.csv`` (commas, UTF-8) and ``.parquet``."""

from __future__ import annotations

import array
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from calibrant._math.arrays import row_slices
from calibrant._math.errors import InputError
from calibrant.predictions.array_files import DAMAGE, as_numpy, damaged
from calibrant.predictions.checks import Kind, shown
from calibrant.predictions.columns import Column, layout_of, predictions_of, table_of
from calibrant.predictions.table import Predictions, Source


def read_csv(path: Path, source: Source, kind: Kind | None) -> Predictions:
    """Read text row by row, so that memory holds the numbers and not the text."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = _lines(file)
        _, header = next(lines, (0, []))
        header = [name.strip() for name in header]
        if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
            raise InputError(
                "its cells are not separated by commas; write it with commas and decimal points."
            )
        layout = layout_of(header)
        indices = [header.index(name) for name in (*layout.scores, *layout.weights)]
        others: dict[str, list[str]] = {name: [] for name in layout.others}
        columns = [(header.index(name), column) for name, column in others.items()]
        numbers = array.array("d")
        for line, cells in lines:
            if len(cells) != len(header):
                raise InputError(f"line {line} has {len(cells)} cells, and the header has {len(header)}.")
            try:
                numbers.extend([float(cells[index]) for index in indices])
            except ValueError:
                raise InputError(_not_a_number(line, header, cells, indices)) from None
            for index, column in columns:
                column.append(cells[index].strip())
    table = np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(indices))
    weights = dict.fromkeys(layout.weights, table[:, -1])
    return predictions_of(layout, table[:, : len(layout.scores)], others | weights, source=source, kind=kind)


def write_csv(predictions: Predictions, path: Path) -> None:
    """Write text that says every float exactly: the shortest decimals that give it back in float64."""
    table = table_of(predictions)
    others = list(table.others.values())
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*table.others, *table.score_names])
        for rows in row_slices(table.scores):
            scores: list[list[float]] = table.scores[rows].double().tolist()
            cells = zip(*(column[rows] for column in others), strict=True) if others else [()] * len(scores)
            writer.writerows([*first, *last] for first, last in zip(cells, scores, strict=True))


def read_parquet(path: Path, source: Source, kind: Kind | None) -> Predictions:
    """Read typed columns; only those that are used."""
    parquet = _parquet()
    try:
        file = parquet.ParquetFile(path)
        header: list[str] = file.schema_arrow.names
    except DAMAGE as error:
        raise InputError(damaged("a .parquet file", error)) from error
    layout = layout_of(header)
    dtypes = [_float_dtype(name, file.schema_arrow.field(name).type) for name in layout.scores]
    scores = np.empty((file.metadata.num_rows, len(dtypes)), dtype=np.result_type(*dtypes))
    try:
        for index, name in enumerate(layout.scores):  # one at a time: memory never holds the table twice
            scores[:, index] = _numbers(name, file)
        weights = {name: _numbers(name, file) for name in layout.weights}
        others = {name: _column(file.read(columns=[name]).column(name)) for name in layout.others}
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(damaged("a .parquet file", error)) from error
    return predictions_of(layout, scores, others | weights, source=source, kind=kind)


def write_parquet(predictions: Predictions, path: Path) -> None:
    """Write typed columns."""
    parquet = _parquet()
    import pyarrow

    table = table_of(predictions)
    scores = as_numpy(table.scores)
    columns: dict[str, Any] = {name: pyarrow.array(column) for name, column in table.others.items()}
    columns |= {name: pyarrow.array(scores[:, index]) for index, name in enumerate(table.score_names)}
    parquet.write_table(pyarrow.table(columns), path)


def _lines(file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the number of the line they end on."""
    reader = csv.reader(file, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(f"line {reader.line_num} is not CSV ({error}).") from error
    except UnicodeDecodeError as error:
        raise InputError(f"it is not UTF-8 text ({error.reason}).") from error


def _not_a_number(line: int, header: list[str], cells: list[str], indices: list[int]) -> str:
    """Which cell of a row is no number."""
    for index in indices:
        try:
            float(cells[index])
        except ValueError:
            return f"line {line}, column `{header[index]}`: {shown(cells[index])} is not a number."
    raise AssertionError


def _float_dtype(name: str, given: Any) -> np.dtype[Any]:
    """The float dtype that holds a column of numbers of an Arrow type."""
    from pyarrow import types

    if types.is_floating(given):
        return np.dtype(given.to_pandas_dtype())
    if types.is_integer(given) or types.is_boolean(given):
        return np.dtype(np.float64)
    raise InputError(f"`{name}` must hold numbers; its type is {given}.")


def _numbers(name: str, file: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """A column of numbers without gaps."""
    column = file.read(columns=[name]).column(name)
    if column.null_count > 0:
        row = column.is_null().to_pylist().index(True)
        raise InputError(f"`{name}` must hold a number in every row; row {row} is empty.")
    return column.to_numpy()


def _column(column: Any) -> Column:
    """Numbers as an array; everything else, and what has gaps, as texts."""
    from pyarrow import types

    numeric = types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)
    if numeric and column.null_count == 0:
        return column.to_numpy()
    return ["" if value is None else str(value) for value in column.to_pylist()]


def _parquet() -> Any:
    """The module of pyarrow, which not every installation has."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            "it needs pyarrow: pip install 'calibrant[parquet]'; or use .csv or .npz."
        ) from error
    return parquet
