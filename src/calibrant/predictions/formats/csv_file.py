"""Text columns in UTF-8: ``.csv`` and ``.tsv``, also compressed as ``.csv.gz`` and ``.tsv.gz``."""

from __future__ import annotations

import array
import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TextIO

import numpy as np

from calibrant._math.errors import InputError
from calibrant._math.text_form import plural
from calibrant.predictions.formats.aliases import GROUP_OF, ColumnNames, canonical
from calibrant.predictions.formats.columns import (
    Column,
    columns_of,
    fields_of_cells,
    fields_of_columns,
    layout_of,
)
from calibrant.predictions.formats.contents import Arrays, FileContents, damaged, lines_named
from calibrant.predictions.formats.tables import Table

_PACKED = b"\x1f\x8b"
_SEPARATOR = re.compile(r'"?sep=(.)"?')
_NAMES = ("group", "cluster", GROUP_OF)
_DECIMAL = re.compile(r"-?\d+\.\d+")
_WRITTEN = 10_000  # rows at a time
DELIMITERS = ",;\t|"  # the first of those that part a header into equally many cells


def read(path: Path, columns: ColumnNames | None = None) -> FileContents:
    """Read text row by row, so memory holds numbers and not text."""
    header = names_of(path)
    layout = layout_of(canonical(header, columns))
    named = [header.index(layout.given[name]) for name in layout.others if name.startswith(_NAMES)]
    numeric = [header.index(layout.given[name]) for name in (*layout.scores, *layout.weights)]
    texts = [header.index(layout.given[name]) for name in layout.others]
    rows = np.full((1, 1), np.nan)
    cells: dict[int, list[str]] = {}
    places: Sequence[int] = ()
    with suppress(ValueError):  # a cell is no number, or not as most programs write it; or there is no row
        numbers, cells, places = _cells(path, texts, numeric)
        rows = np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(numeric))
    if np.isnan(rows).any():
        _, cells, places = _cells(path, [*numeric, *texts])
        cells |= {place: _whole(cells[place]) for place in named}
        by_name = {header[place]: column for place, column in cells.items()}
        with lines_named(places):
            return FileContents(fields=fields_of_cells(layout, by_name.__getitem__), lines=places)
    cells |= {place: _whole(cells[place]) for place in named}
    others: dict[str, Column] = dict(zip(layout.others, cells.values(), strict=True))
    others |= dict.fromkeys(layout.weights, rows[:, -1])
    with lines_named(places):
        fields = fields_of_columns(layout, rows[:, : len(layout.scores)], others)
    return FileContents(fields=fields, lines=places)


def _whole(texts: list[str]) -> list[str]:
    """Return whole numbers without decimals, as typed tables have them, if all names are decimal numbers."""
    decimals = all(_DECIMAL.fullmatch(text) for text in texts if text)
    return [text.partition(".")[0] if text.endswith(".0") else text for text in texts] if decimals else texts


def _cells(
    path: Path, texts: Sequence[int], numeric: Sequence[int] = ()
) -> tuple[array.array[float], dict[int, list[str]], array.array[int]]:
    """Return numbers by row, text columns, and line numbers; raise ``ValueError`` at a bad number."""
    numbers, lines = array.array("d"), array.array("q")
    columns: dict[int, list[str]] = {place: [] for place in texts}
    for line, cells in _rows(path):
        found = [cells[place] for place in numeric]
        if "_" in "".join(found):  # which Python allows in numbers
            raise ValueError(found)
        numbers.extend(map(float, found))
        lines.append(line)
        for place, column in columns.items():
            column.append(cells[place].strip())
    return numbers, columns, lines


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    with open_text(path) as file:
        header, numbered = header_of(file)
        for line, cells in numbered:
            if len(cells) != len(header):
                raise InputError(
                    f"line {line} has {plural(len(cells), 'cell')}; the header has {len(header)}."
                )
            yield line, cells


def header_of(file: TextIO) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    start, delimiter = beginning(file)
    numbered = lines(itertools.chain(start, file), delimiter)
    _, header = next(numbered, (0, []))
    return [name.strip() for name in header], numbered


def names_of(path: Path) -> list[str]:
    with open_text(path) as file:
        return header_of(file)[0]


def table(path: Path, columns: ColumnNames | None = None) -> Table:  # noqa: ARG001
    header = names_of(path)
    _, cells, lines = _cells(path, range(len(header)))
    return Table(names=header, column=lambda name: cells[header.index(name)], lines=lines)


def write(arrays: Arrays, path: Path) -> None:
    """Write floats exactly, as the shortest decimals that restore them in float64."""
    columns = columns_of(arrays)
    with open_text(path, "w") as file:
        tabs = ".tsv" in [suffix.lower() for suffix in path.suffixes]
        writer = csv.writer(file, lineterminator="\n", delimiter="\t" if tabs else ",")
        writer.writerow(columns)
        for start in range(0, len(next(iter(columns.values()))), _WRITTEN):
            some = [each[start : start + _WRITTEN] for each in columns.values()]
            cells = [each if isinstance(each, list) else each.double().tolist() for each in some]
            writer.writerows(zip(*cells, strict=True))


@contextmanager
def open_text(path: Path, mode: Literal["r", "w"] = "r") -> Generator[TextIO]:
    """Open a text file, compressed or not; equal text gives equal bytes."""
    encoding = "utf-8" if mode == "w" else "utf-8-sig"
    packed = path.suffix.lower() == ".gz"
    if mode == "r" and not packed:
        with path.open("rb") as file:
            packed = file.read(2) == _PACKED
    if not packed:
        with path.open(mode, encoding=encoding, newline="") as file:
            yield file
        return
    with (
        path.open(f"{mode}b") as raw,
        gzip.GzipFile("", f"{mode}b", fileobj=raw, mtime=0) as inner,
        io.TextIOWrapper(inner, encoding=encoding, newline="") as file,
    ):
        yield file


def beginning(file: TextIO) -> tuple[list[str], str]:
    """Return the lines up to the header, and the delimiter that gives the most cells."""
    start: list[str] = []
    stated: str | None = None  # spreadsheets write it: sep=;
    with _readable():
        for line in file:
            if (found := _SEPARATOR.fullmatch(line.strip())) and stated is None:
                stated, line = found[1], "\n"
            start.append(line)
            if line.strip():
                break
    header = start[-1:]
    try:
        return start, stated or max(
            DELIMITERS, key=lambda mark: len(next(csv.reader(header, delimiter=mark), []))
        )
    except csv.Error as error:
        raise InputError(f"line {len(start)} is not CSV ({error}).") from error


@contextmanager
def _readable() -> Generator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError("it is not UTF-8 text; save it as such (in a spreadsheet: CSV UTF-8).") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(damaged("a .csv.gz file", error)) from error


def lines(file: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(file, strict=True, delimiter=delimiter)
    try:
        with _readable():
            for cells in reader:
                if any(map(str.strip, cells)):
                    yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(f"line {reader.line_num} is not CSV ({error}).") from error
