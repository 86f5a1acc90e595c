"""All formats of prediction files by their ending."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant.predictions.formats import arrays as of_arrays
from calibrant.predictions.formats import csv_file, excel, json_file, parquet, parquet_files
from calibrant.predictions.formats.aliases import ColumnNames
from calibrant.predictions.formats.contents import Arrays, FileContents, lines_named
from calibrant.predictions.formats.tables import Table, fields_of_table


@dataclass(frozen=True, kw_only=True)
class Format:
    """Reader and writer for an ending; ``stream`` leaves the scores in the file."""

    read: Callable[..., FileContents]
    write: Callable[[Arrays, Path], None] | None = None
    stream: Callable[..., FileContents] | None = None
    size_of_scores: Callable[..., int] = lambda *_: 0
    """In bytes; 0 where they can only be read whole."""
    table: Callable[..., Table] | None = None
    """Reads columns; who reads such takes names of columns, ``columns``."""
    names: Callable[[Path], Sequence[str]] = lambda _: ()
    """The names of its columns, if it has such."""

    def names_in(self, path: Path, columns: ColumnNames | None) -> Sequence[str]:
        """Return the names of the file's columns, or of those of the named sheet."""
        table = self.table if columns and columns.sheet else None
        return table(path, columns).names if table else self.names(path)


def npy_format(labels: Path | None = None) -> Format:
    return Format(
        read=partial(of_arrays.read_npy, labels=labels),
        stream=partial(of_arrays.stream_npy, labels=labels),
        size_of_scores=partial(of_arrays.size_of_npy, labels=labels),
    )


def _of_table(table: Callable[..., Table], **how: Any) -> Format:
    def read(path: Path, columns: ColumnNames | None = None) -> FileContents:
        found = table(path, columns)
        with lines_named(found.lines):
            return FileContents(fields=fields_of_table(found, columns), lines=found.lines)

    usual: dict[str, Any] = {"read": read, "table": table, "names": lambda path: table(path).names}
    return Format(**(usual | how))


MANY_PARQUET = _of_table(parquet_files.table)
"""A folder of Parquet files, or an address; they are read part by part elsewhere."""
_TEXT = _of_table(csv_file.table, read=csv_file.read, write=csv_file.write, names=csv_file.names_of)
_ARROW = _of_table(parquet.table_of_feather, write=partial(parquet.write, feather=True))
_WORKBOOK = _of_table(excel.table)
_JSON, _LINES = (
    _of_table(
        partial(json_file.table, whole=whole),
        read=partial(json_file.read, whole=whole),
        write=partial(json_file.write, whole=whole),
        names=partial(json_file.names_in, whole=whole),
    )
    for whole in (True, False)
)

FORMATS = {
    ".npz": Format(read=of_arrays.read_npz, write=of_arrays.write_npz),
    ".csv": _TEXT,
    ".csv.gz": _TEXT,
    ".tsv": _TEXT,
    ".tsv.gz": _TEXT,
    ".parquet": _of_table(
        parquet.table,
        write=parquet.write,
        stream=parquet.stream,
        size_of_scores=parquet.size_of_scores,
    ),
    ".feather": _ARROW,
    ".arrow": _ARROW,
    ".xlsx": _WORKBOOK,
    ".xls": _WORKBOOK,
    ".ods": _WORKBOOK,
    ".jsonl": _LINES,
    ".ndjson": _LINES,
    ".json": _JSON,
    ".safetensors": Format(read=of_arrays.read_safetensors, write=of_arrays.write_safetensors),
    ".pt": Format(read=of_arrays.read_pt, write=of_arrays.write_pt),
    ".npy": npy_format(),
    ".eval": replace(_JSON, write=None),
}
WORKBOOKS = tuple(ending for ending, each in FORMATS.items() if each is _WORKBOOK)
WRITERS = {ending: each.write for ending, each in FORMATS.items() if each.write is not None}


def format_at(path: Path, ending: str) -> Format:
    return MANY_PARQUET if ending == ".parquet" and parquet_files.is_partitioned(path) else FORMATS[ending]


def write(arrays: Arrays, path: str | os.PathLike[str]) -> None:
    """Write arrays in the format of the ending, whole or not at all."""
    path = Path(path)
    writer = WRITERS[known_ending(path, WRITERS)]
    with atomic_write(path) as temporary:
        try:
            writer(arrays, temporary)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def known_ending(path: Path, known: Collection[str]) -> str:
    ending = "".join(path.suffixes[-2:]).lower()
    if ending not in known:  # .csv.gz is, and v1.npz is not an ending
        ending = path.suffix.lower()
    if ending not in known:
        raise InputError(f"{path} must end in one of {', '.join(known)}; got {ending or 'no ending'!r}.")
    return ending
