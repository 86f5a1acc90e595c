"""Records and arrays as JSON: ``.jsonl`` (also ``.ndjson``), a record a line, and ``.json``.

A record is a row of a table, whose cells may be lists: ``probs`` or ``logits`` of all classes, or the
``[{"label": ..., "score": ...}, ...]`` of a Hugging Face pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from calibrant._math.errors import InputError
from calibrant.predictions.formats import inspect_log, lm_eval
from calibrant.predictions.formats.aliases import ColumnNames
from calibrant.predictions.formats.arrays import fields_of_arrays
from calibrant.predictions.formats.columns import cells_of
from calibrant.predictions.formats.contents import Arrays, FileContents, damaged, lines_named
from calibrant.predictions.formats.lm_eval import LmScore
from calibrant.predictions.formats.mark import MARK
from calibrant.predictions.formats.tables import Table, fields_of_table, table_of_records

Record: TypeAlias = dict[str, Any]

_NO_COLUMNS = frozenset({"class_names", "kind"})
"""Arrays that do not hold one entry for each sample."""


def write(arrays: Arrays, path: Path, *, whole: bool) -> None:
    columns = cells_of(arrays)
    rows = zip(*columns.values(), strict=True)
    write_records((dict(zip(columns, row, strict=True)) for row in rows), path, whole=whole)


def write_records(records: Iterable[Record], path: Path, *, whole: bool) -> None:
    texts = [json.dumps(record, ensure_ascii=False) for record in records]
    text = "[" + ",\n".join(texts) + "]\n" if whole else "".join(f"{line}\n" for line in texts)
    path.write_text(text, encoding="utf-8")


def read(
    path: Path, columns: ColumnNames | None = None, *, lm_score: LmScore = "acc", whole: bool
) -> FileContents:
    """Read records, one a line or (if ``whole``) in a list, or a dictionary of arrays."""
    found = contents(path, whole=whole)
    if inspect_log.is_log(found):
        try:
            fields = inspect_log.fields_of_log(found, lm_score, columns)
        except (AttributeError, LookupError, TypeError) as error:
            raise InputError(damaged("a log of inspect-ai", error)) from error
        return FileContents(fields=fields, paths=inspect_log.logs_in(path))
    if isinstance(found, dict):
        fields = fields_of_arrays(list(found), lambda name: _array(name, found[name]))
        return FileContents(fields=fields)
    records, lines = found
    if lm_eval.are_samples(records):
        table = lm_eval.table_of_samples(records, score=lm_score, columns=columns)
        return FileContents(fields=fields_of_table(table, columns))
    if lm_score != "acc":
        raise InputError("`lm_score` goes with logs of language models; these are other records.")
    with lines_named(lines):
        return FileContents(fields=fields_of_table(table_of_records(records, columns), columns), lines=lines)


def table(path: Path, columns: ColumnNames | None = None, *, whole: bool) -> Table:
    records, lines = records_of(path, whole=whole)
    return table_of_records(records, columns, lines)


def names_in(path: Path, *, whole: bool) -> list[str]:
    found = contents(path, whole=whole)
    return [] if isinstance(found, dict) else [*table_of_records(found[0]).names]


def records_of(path: Path, *, whole: bool) -> tuple[list[Record], list[int]]:
    found = contents(path, whole=whole)
    if isinstance(found, dict):
        what = "a log of inspect-ai" if inspect_log.is_log(found) else "arrays by name"
        raise InputError(f"it holds {what}, not records.")
    return found


def contents(path: Path, *, whole: bool) -> Record | tuple[list[Record], list[int]]:
    if (log := inspect_log.log_in(path)) is not None:
        return log
    with path.open(encoding="utf-8-sig") as file:
        try:
            text = file.read()
        except UnicodeDecodeError as error:
            raise InputError("it is not UTF-8 text; save it as such.") from error
    if whole:
        found = _parsed(text, "it")
        if isinstance(found, dict):
            columns = _records_of_columns(found)
            return found if columns is None else (columns, [])
        if not isinstance(found, list):
            raise InputError("it holds neither records nor named arrays.")
        records, lines = [_record(each, f"row {row}") for row, each in enumerate(found)], []
    else:
        numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        records = [_record(_parsed(line, f"line {number}"), f"line {number}") for number, line in numbered]
        lines = [number for number, _ in numbered]
    if not records:
        raise InputError("it holds no records.")
    return records, lines


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        said = str(error).split(":")[0].lower()
        remedy = "; if each line is a record, call the file .jsonl" if said == "extra data" else ""
        raise InputError(f"{what} is not JSON ({said}){remedy}.") from error
    except RecursionError as error:
        raise InputError(f"{what} nests its brackets too deeply.") from error


def _record(value: Any, what: str) -> Record:
    if not isinstance(value, dict):
        raise InputError(f'{what} is not a record, such as {{"label": 1, "prob": 0.9}}.')
    return value


def _records_of_columns(arrays: Record) -> list[Record] | None:
    """Return one record per sample, if arrays are equally long lists or ``{"0": …, "1": …}``."""
    columns = {
        name: list(values.values()) if isinstance(values, dict) else values for name, values in arrays.items()
    }
    lengths = {len(each) if isinstance(each, list) else None for each in columns.values()}
    if _NO_COLUMNS & columns.keys() or len(lengths) != 1 or None in lengths:
        return None
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _array(name: str, values: Any) -> Any:
    if name in {"class_names", "groups", "clusters", "kind", MARK}:
        return [str(each) for each in values] if isinstance(values, list) else values
    if isinstance(values, list) and values and all(isinstance(each, str) for each in values):
        return values
    try:
        found = np.asarray(values)
    except ValueError as error:
        raise InputError(f"`{name}` must hold the same number of values in every row.") from error
    if found.dtype.kind not in "biuf":
        raise InputError(f"`{name}` must hold numbers in every row; some hold none.")
    return found
