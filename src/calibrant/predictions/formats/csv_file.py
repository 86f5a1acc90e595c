"""Columns as text, ``.csv`` and ``.tsv`` (UTF-8), also packed as ``.csv.gz`` and ``.tsv.gz``."""

from __future__ import annotations

import array
import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

import numpy as np

from calibrant._math.arrays import row_slices
from calibrant._math.errors import InputError
from calibrant.predictions.checks import shown
from calibrant.predictions.formats.aliases import ColumnNames, canonical
from calibrant.predictions.formats.columns import columns_of, fields_of_columns, layout_of
from calibrant.predictions.formats.contents import Arrays, FileContents, damaged, lines_named

_PACKED = b"\x1f\x8b"
DELIMITERS = ",;\t|"  # the first of those that part a header into equally many cells


def read(path: Path, columns: ColumnNames | None = None) -> FileContents:
    """Read text row by row, so that memory holds the numbers and not the text."""
    with open_text(path) as file:
        start, delimiter = beginning(file)
        numbered = lines(itertools.chain(start, file), delimiter)
        _, header = next(numbered, (0, []))
        header = [name.strip() for name in header]
        number = _plain_number if delimiter == "," else _number
        signed = unsigned = 0  # the first line with a % sign, and without
        titles = canonical(header, columns)
        layout = layout_of(titles)
        given, header = header, titles.names
        indices = [header.index(name) for name in (*layout.scores, *layout.weights)]
        others: dict[str, list[str]] = {name: [] for name in layout.others}
        scored = indices[: len(layout.scores)]
        cells_of = [(header.index(name), column) for name, column in others.items()]
        numbers, places = array.array("d"), array.array("q")
        for line, cells in numbered:
            places.append(line)
            _check_width(line, cells, header)
            try:
                numbers.extend([number(cells[index]) for index in indices])
                unsigned = unsigned or line
            except ValueError:
                signs = [cells[index].strip().endswith("%") for index in scored]
                signed = signed or line * any(signs)
                unsigned = unsigned or line * (not all(signs))
                bare = [cells[index].strip().removesuffix("%") for index in scored]
                bare += [cells[index] for index in indices[len(scored) :]]
                numbers.extend(_numbers(line, [given[index] for index in indices], bare, number))
            for index, column in cells_of:
                column.append(cells[index].strip())
    if signed and unsigned:
        raise InputError(
            f"all scores must have a % sign or none; line {signed} has one, line {unsigned} lacks one."
        )
    table = np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(indices))
    weights = dict.fromkeys(layout.weights, table[:, -1])
    scores = table[:, : len(layout.scores)]
    with lines_named(places):
        fields = fields_of_columns(layout, scores, others | weights)
    return FileContents(fields=fields, lines=places, percent=signed > 0)


def records_of(path: Path) -> tuple[list[dict[str, str]], list[int]]:
    """Rows by the names of the columns, and the line that each ends on."""
    with open_text(path) as file:
        start, delimiter = beginning(file)
        numbered = lines(itertools.chain(start, file), delimiter)
        _, header = next(numbered, (0, []))
        records: list[dict[str, str]] = []
        places: list[int] = []
        for line, cells in numbered:
            _check_width(line, cells, header)
            bare = (cell.strip() for cell in cells)
            texts = bare if delimiter == "," else (each.replace(",", ".") for each in bare)
            records.append({name.strip(): text for name, text in zip(header, texts, strict=True)})
            places.append(line)
    return records, places


def write(arrays: Arrays, path: Path) -> None:
    """Write text that says every float exactly: the shortest decimals that give it back in float64."""
    table = columns_of(arrays)
    others = list(table.others.values())
    with open_text(path, "w") as file:
        tabs = ".tsv" in [suffix.lower() for suffix in path.suffixes]
        writer = csv.writer(file, lineterminator="\n", delimiter="\t" if tabs else ",")
        writer.writerow([*table.others, *table.score_names])
        for rows in row_slices(table.scores):
            scores: list[list[float]] = table.scores[rows].double().tolist()
            cells = zip(*(column[rows] for column in others), strict=True) if others else [()] * len(scores)
            writer.writerows([*first, *last] for first, last in zip(cells, scores, strict=True))


def _check_width(line: int, cells: list[str], header: Sequence[str]) -> None:
    if len(cells) != len(header):
        raise InputError(f"line {line} has {len(cells)} cells, and the header has {len(header)}.")


@contextmanager
def open_text(path: Path, mode: Literal["r", "w"] = "r") -> Generator[TextIO]:
    """A text file, compressed where it begins so or is to end so; the same text gives the same bytes."""
    encoding = "utf-8" if mode == "w" else "utf-8-sig"
    if not (_is_packed(path) if mode == "r" else path.suffix.lower() == ".gz"):
        with path.open(mode, encoding=encoding, newline="") as file:
            yield file
        return
    with (
        path.open(f"{mode}b") as raw,
        gzip.GzipFile("", f"{mode}b", fileobj=raw, mtime=0) as inner,
        io.TextIOWrapper(inner, encoding=encoding, newline="") as file,
    ):
        yield file


def _is_packed(path: Path) -> bool:
    """Whether a file is compressed, or should be: what comes through a pipe has no ending."""
    with path.open("rb") as file:
        return file.read(2) == _PACKED or path.suffix.lower() == ".gz"


def beginning(file: TextIO) -> tuple[list[str], str]:
    """The lines up to the header, and what parts it into the most cells: comma, semicolon, tab or bar."""
    start: list[str] = []
    with _readable():
        for line in file:
            start.append(line)
            if line.strip():
                break
    header = start[-1:]
    try:
        return start, max(DELIMITERS, key=lambda mark: len(next(csv.reader(header, delimiter=mark), [])))
    except csv.Error as error:
        raise InputError(f"line {len(start)} is not CSV ({error}).") from error


@contextmanager
def _readable() -> Generator[None]:
    """One sentence for text that cannot be read."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError("it is not UTF-8 text; save it as such (in a spreadsheet: CSV UTF-8).") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(damaged("a .csv.gz file", error)) from error


def lines(file: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the number of the line they end on."""
    reader = csv.reader(file, strict=True, delimiter=delimiter)
    try:
        with _readable():
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(f"line {reader.line_num} is not CSV ({error}).") from error


def _plain_number(text: str) -> float:
    if "_" in text:  # which Python passes over, and no one else
        raise ValueError(text)
    return float(text)


def _number(text: str) -> float:
    """A number that may have a decimal comma, which cells that no comma parts can hold."""
    return _plain_number(text.replace(",", "."))


def _numbers(line: int, names: list[str], texts: list[str], number: Callable[[str], float]) -> list[float]:
    """The numbers of a row, or which of its cells is none."""
    numbers: list[float] = []
    for name, text in zip(names, texts, strict=True):
        try:
            numbers.append(number(text))
        except ValueError:
            raise InputError(f"line {line}, column `{name}`: {shown(text)} is not a number.") from None
    return numbers
