"""Files of columns: ``.csv`` (UTF-8), ``.csv.gz`` and ``.parquet``."""

from __future__ import annotations

import array
import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np

from calibrant._math.arrays import row_slices
from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant.predictions.array_files import as_numpy, damaged
from calibrant.predictions.checks import Kind, shown
from calibrant.predictions.columns import Column, layout_of, predictions_of, table_of
from calibrant.predictions.table import Predictions, Source

DELIMITERS = ",;\t|"  # the first of those that part a header into equally many cells

_ROW = re.compile(r"\brow (\d+)\b")  # in messages, where rows count from 0


def read_csv(path: Path, source: Source, kind: Kind | None) -> Predictions:
    """Read text row by row, so that memory holds the numbers and not the text."""
    with _open_text(path) as file:
        start, delimiter = _beginning(file)
        lines = _lines(itertools.chain(start, file), delimiter)
        _, header = next(lines, (0, []))
        header = [name.strip() for name in header]
        number = float if delimiter == "," else _number
        layout = layout_of(header)
        indices = [header.index(name) for name in (*layout.scores, *layout.weights)]
        others: dict[str, list[str]] = {name: [] for name in layout.others}
        columns = [(header.index(name), column) for name, column in others.items()]
        numbers, places = array.array("d"), array.array("q")
        for line, cells in lines:
            places.append(line)
            if len(cells) != len(header):
                raise InputError(f"line {line} has {len(cells)} cells, and the header has {len(header)}.")
            try:
                numbers.extend([number(cells[index]) for index in indices])
            except ValueError:
                raise InputError(_not_a_number(line, header, cells, indices, number)) from None
            for index, column in columns:
                column.append(cells[index].strip())
    table = np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(indices))
    weights = dict.fromkeys(layout.weights, table[:, -1])
    scores = table[:, : len(layout.scores)]
    try:
        return predictions_of(layout, scores, others | weights, source=source, kind=kind)
    except InputError as error:
        message = str(error)
        row = _ROW.search(message)
        if row is None or int(row[1]) >= len(places):  # in what a cell says
            raise
        place = f"{row[0]} (line {places[int(row[1])]})"
        raise InputError(message[: row.start()] + place + message[row.end() :]) from error


def write_csv(predictions: Predictions, path: Path) -> None:
    """Write text that says every float exactly: the shortest decimals that give it back in float64."""
    table = table_of(predictions)
    others = list(table.others.values())
    with _open_text(path, "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*table.others, *table.score_names])
        for rows in row_slices(table.scores):
            scores: list[list[float]] = table.scores[rows].double().tolist()
            cells = zip(*(column[rows] for column in others), strict=True) if others else [()] * len(scores)
            writer.writerows([*first, *last] for first, last in zip(cells, scores, strict=True))


def read_parquet(path: Path, source: Source, kind: Kind | None) -> Predictions:
    """Read typed columns; only those that are used."""
    parquet = parquet_module()
    try:
        file = parquet.ParquetFile(path)
        header: list[str] = file.schema_arrow.names
    except DAMAGE as error:
        raise InputError(damaged("a .parquet file", error)) from error
    layout = layout_of(header)
    dtypes = [float_dtype(name, file.schema_arrow.field(name).type) for name in layout.scores]
    scores = np.empty((file.metadata.num_rows, len(dtypes)), dtype=np.result_type(*dtypes))
    try:
        for index, name in enumerate(layout.scores):  # one at a time: memory never holds the table twice
            scores[:, index] = number_column(name, file)
        weights = {name: number_column(name, file) for name in layout.weights}
        others = {name: as_column(file.read(columns=[name]).column(name)) for name in layout.others}
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(damaged("a .parquet file", error)) from error
    return predictions_of(layout, scores, others | weights, source=source, kind=kind)


def write_parquet(predictions: Predictions, path: Path) -> None:
    """Write typed columns."""
    parquet = parquet_module()
    import pyarrow

    table = table_of(predictions)
    scores = as_numpy(table.scores)
    columns: dict[str, Any] = {name: pyarrow.array(column) for name, column in table.others.items()}
    columns |= {name: pyarrow.array(scores[:, index]) for index, name in enumerate(table.score_names)}
    parquet.write_table(pyarrow.table(columns), path)


@contextmanager
def _open_text(path: Path, mode: Literal["r", "w"] = "r") -> Generator[TextIO]:
    """A text file, compressed where the ending says so; the same text gives the same bytes."""
    encoding = "utf-8" if mode == "w" else "utf-8-sig"
    if path.suffix.lower() != ".gz":
        with path.open(mode, encoding=encoding, newline="") as file:
            yield file
        return
    with (
        path.open(f"{mode}b") as raw,
        gzip.GzipFile("", f"{mode}b", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding=encoding, newline="") as file,
    ):
        yield file


def _beginning(file: TextIO) -> tuple[list[str], str]:
    """The lines up to the header, and what parts it into the most cells: comma, semicolon, tab or bar."""
    start: list[str] = []
    with _readable():
        for line in file:
            start.append(line)
            if line.strip():
                break
    header = start[-1:]
    return start, max(DELIMITERS, key=lambda mark: len(next(csv.reader(header, delimiter=mark), [])))


@contextmanager
def _readable() -> Generator[None]:
    """One sentence for text that cannot be read."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError("it is not UTF-8 text; save it as such (in a spreadsheet: CSV UTF-8).") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(damaged("a .csv.gz file", error)) from error


def _lines(file: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the number of the line they end on."""
    reader = csv.reader(file, strict=True, delimiter=delimiter)
    try:
        with _readable():
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(f"line {reader.line_num} is not CSV ({error}).") from error


def _number(text: str) -> float:
    """A number that may have a decimal comma, which cells that no comma parts can hold."""
    return float(text.replace(",", "."))


def _not_a_number(
    line: int, header: list[str], cells: list[str], indices: list[int], number: Callable[[str], float]
) -> str:
    """Which cell of a row is no number."""
    for index in indices:
        try:
            number(cells[index])
        except ValueError:
            return f"line {line}, column `{header[index]}`: {shown(cells[index])} is not a number."
    raise AssertionError


def float_dtype(name: str, given: Any) -> np.dtype[Any]:
    """The float dtype that holds a column of numbers of an Arrow type."""
    from pyarrow import types

    if types.is_floating(given):
        return np.dtype(given.to_pandas_dtype())
    if types.is_integer(given) or types.is_boolean(given):
        return np.dtype(np.float64)
    raise InputError(f"`{name}` must hold numbers; its type is {given}.")


def number_column(name: str, file: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """A column of numbers without gaps."""
    column = file.read(columns=[name]).column(name)
    if column.null_count > 0:
        row = column.is_null().to_pylist().index(True)
        raise InputError(f"`{name}` must hold a number in every row; row {row} is empty.")
    return column.to_numpy()


def as_column(column: Any) -> Column:
    """Numbers as an array; everything else, and what has gaps, as texts."""
    from pyarrow import types

    numeric = types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)
    if numeric and column.null_count == 0:
        return column.to_numpy()
    return ["" if value is None else str(value) for value in column.to_pylist()]


def parquet_module() -> Any:
    """The module of pyarrow, which not every installation has."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            "it needs pyarrow: pip install 'calibrant[parquet]'; or use .csv or .npz."
        ) from error
    return parquet
