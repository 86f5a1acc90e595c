"""Records and arrays as JSON: ``.jsonl`` (also ``.ndjson``), a record a line, and ``.json``.

A record is a row of a table, whose cells may be lists: ``probs`` or ``logits`` of all classes, or the
``[{"label": ..., "score": ...}, ...]`` of a Hugging Face pipeline. Lines that lm-evaluation-harness logged
are read by :mod:`calibrant.predictions.formats.lm_eval`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant._math.errors import InputError
from calibrant.predictions.checks import as_texts
from calibrant.predictions.formats import lm_eval
from calibrant.predictions.formats.aliases import ARRAYS, LABELS, ColumnNames, space_of
from calibrant.predictions.formats.arrays import fields_of_arrays
from calibrant.predictions.formats.columns import (
    FAMILIES,
    Column,
    columns_of,
    fields_of_cells,
    layout_in,
)
from calibrant.predictions.formats.contents import Arrays, FileContents, lines_named
from calibrant.predictions.formats.lm_eval import LmScore
from calibrant.predictions.formats.mark import MARK
from calibrant.predictions.formats.stated import names_stated, stated_fields, with_nested
from calibrant.predictions.formats.top_k import fields_of_top_k, holds_top_k
from calibrant.predictions.labels import whole_number

Record: TypeAlias = dict[str, Any]
Form: TypeAlias = Literal["columns", "lists", "pipelines"]

_NO_COLUMNS = frozenset({"class_names", "kind"})
"""Arrays that do not hold one entry for each sample."""
_PIPELINE = {"label", "score"}
_NUMBERED = "LABEL_"
"""What Hugging Face's models call class i where nobody named it."""
_PIPELINE_KEYS = ("scores", "probs", "predictions", "prediction", "output", "outputs")


def write(arrays: Arrays, path: Path, *, whole: bool) -> None:
    """Write a record a line, or a list of them."""
    table = columns_of(arrays)
    columns = table.others | {name: table.scores[:, k].tolist() for k, name in enumerate(table.score_names)}
    rows = zip(*columns.values(), strict=True)
    write_records((dict(zip(columns, row, strict=True)) for row in rows), path, whole=whole)


def write_records(records: Iterable[Record], path: Path, *, whole: bool) -> None:
    """Write what can be read back by :func:`contents`."""
    texts = [json.dumps(record, ensure_ascii=False) for record in records]
    text = "[" + ",\n".join(texts) + "]\n" if whole else "".join(f"{line}\n" for line in texts)
    path.write_text(text, encoding="utf-8")


def read(
    path: Path, columns: ColumnNames | None = None, *, lm_score: LmScore = "acc", whole: bool
) -> FileContents:
    """Read records, one a line or (of a ``whole`` file) in a list; or a dictionary of arrays."""
    found = contents(path, whole=whole)
    if isinstance(found, dict):
        return FileContents(fields=_of_arrays(found))
    records, lines = found
    if lm_eval.are_samples(records):
        return FileContents(fields=lm_eval.fields_of_samples(records, score=lm_score, columns=columns))
    if lm_score != "acc":
        raise InputError("`lm_score` goes with samples of lm-evaluation-harness; these are other records.")
    with lines_named(lines):
        return FileContents(fields=fields_of_records(records, columns), lines=lines)


def names_in(path: Path, *, whole: bool) -> list[str]:
    """The names of all fields; of arrays by name none, as those are no columns."""
    found = contents(path, whole=whole)
    return [] if isinstance(found, dict) else names_of(found[0])


def records_of(path: Path, *, whole: bool) -> tuple[list[Record], list[int]]:
    """The records, and the line of each where it has one."""
    found = contents(path, whole=whole)
    if isinstance(found, dict):
        raise InputError("it holds arrays by name, not records.")
    return found


def contents(path: Path, *, whole: bool) -> Record | tuple[list[Record], list[int]]:
    """A dictionary of arrays; or records, and the lines that they stand on."""
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
            raise InputError("it holds neither records nor arrays by name.")
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
        raise InputError(f"{what} is not JSON ({str(error).split(':')[0].lower()}).") from error
    except RecursionError as error:
        raise InputError(f"{what} nests its brackets too deeply.") from error


def _record(value: Any, what: str) -> Record:
    if not isinstance(value, dict):
        raise InputError(f'{what} is not a record, such as {{"label": 1, "prob": 0.9}}.')
    return value


def _of_arrays(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return fields_of_arrays(list(arrays), lambda name: _array(name, arrays[name]))


def _records_of_columns(arrays: Record) -> list[Record] | None:
    """A record for each sample, where arrays are columns: lists of one length, or ``{"0": …, "1": …}``."""
    columns = {
        name: list(values.values()) if isinstance(values, dict) else values for name, values in arrays.items()
    }
    if _NO_COLUMNS & columns.keys() or not all(isinstance(each, list) for each in columns.values()):
        return None
    if len({len(each) for each in columns.values()}) != 1:
        return None
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def fields_of_records(records: Sequence[Record], columns: ColumnNames | None) -> dict[str, Any]:
    """The columns that records make, or the lists that stand in their cells."""
    records = with_nested(records, columns)
    names = names_of(records)
    if holds_top_k(names):
        return fields_of_top_k(names, lambda each: [record.get(each) for record in records], columns)
    form, name = form_of(records, columns)
    if form == "pipelines":
        return _of_pipelines(records, name, names, stated_fields(records, columns))
    if form == "lists":
        cells = {name: [record.get(name) for record in records] for name in names}
        return fields_of_lists(cells, records, columns)
    layout, given = layout_in(names, columns)
    return fields_of_cells(
        layout,
        given,
        lambda name: [record.get(name) for record in records],
        lambda name: _cells(name, records),
    )


def fields_of_lists(
    cells: Mapping[str, Any], records: Sequence[Record], columns: ColumnNames | None
) -> dict[str, Any]:
    """The arguments of ``Predictions`` where a cell of one column holds the scores of all classes."""
    stated = stated_fields(records, columns)
    taken = {*names_stated(columns), *stated, *(name for name, array in ARRAYS.items() if array in stated)}
    return _of_arrays({name: each for name, each in cells.items() if name not in taken} | stated)


def with_lists_spread(
    records: Sequence[Mapping[str, Any]], columns: ColumnNames | None
) -> Sequence[Mapping[str, Any]]:
    """Records whose cells hold numbers, each in a cell of its own, where they were lists of them."""
    if not records:
        return records
    form, name = form_of([dict(records[0])], columns)
    if form != "lists":
        return records
    family = FAMILIES[space_of(name) or ""]
    return [
        {each: cell for each, cell in record.items() if each != name}
        | {f"{family}_{k}": cell for k, cell in enumerate(record.get(name) or ())}
        for record in records
    ]


def names_of(records: Sequence[Record]) -> list[str]:
    """The names of all fields, in the order of their first."""
    return list(dict.fromkeys(name for record in records for name in record))


def form_of(records: Sequence[Record], columns: ColumnNames | None) -> tuple[Form, str]:
    """Whether the scores are numbers, lists or a pipeline's output, and the field that holds the last two."""
    lists = [name for name, cell in records[0].items() if isinstance(cell, list) and space_of(name)]
    piped = [name for name in _PIPELINE_KEYS if _is_pipeline(records[0].get(name))]
    if piped:
        return "pipelines", piped[0]
    named = columns is not None and bool(columns.probs or columns.logits)
    return ("lists", lists[0]) if lists and not named else ("columns", "")


def _is_pipeline(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and isinstance(value[0], dict) and set(value[0]) >= _PIPELINE
    )


def _of_pipelines(
    records: Sequence[Record], name: str, names: Sequence[str], stated: Mapping[str, Any]
) -> dict[str, Any]:
    """Probabilities by label, as pipelines for text classification give them with ``top_k=None``."""
    tables = [_scores_by_label(record.get(name), f"`{name}` must list labels with scores; row {row}")
              for row, record in enumerate(records)]  # fmt: skip
    classes = pipeline_classes(tables[0])
    for row, table in enumerate(tables):
        if table.keys() != tables[0].keys():
            raise InputError(f"`{name}` must score the same labels in every row; row {row} scores others.")
    arrays: Record = {
        "probs": [[table[each] for each in classes] for table in tables],
        "class_names": classes,
    }
    truth = next((each for each in ("label", "labels", *LABELS) if each in names), None)
    if truth is not None:
        arrays["labels"] = [record.get(truth) for record in records]
    if MARK in names:
        arrays[MARK] = [record.get(MARK) for record in records]
    found = _of_arrays({**arrays, **stated})
    if "labels" in found:
        _refuse_numbers_for_names(found["labels"], classes, truth or "labels", name)
    return found


def _scores_by_label(value: Any, what: str) -> dict[str, float]:
    try:
        return {str(each["label"]): float(each["score"]) for each in value}
    except (KeyError, OverflowError, TypeError, ValueError):
        raise InputError(f"{what} does not.") from None


def pipeline_classes(labels: Iterable[str]) -> list[str]:
    """The classes that a pipeline scores in their order: ``LABEL_10`` and the number 10 are the tenth.

    Example:
        >>> pipeline_classes(["LABEL_10", "LABEL_2"]), pipeline_classes(["b", "a"])
        (['LABEL_2', 'LABEL_10'], ['a', 'b'])
    """
    numbers = {each: each.removeprefix(_NUMBERED) for each in labels}
    if all(map(str.isdecimal, numbers.values())):
        return sorted(numbers, key=lambda each: int(numbers[each]))
    return sorted(numbers)


def _refuse_numbers_for_names(labels: Any, classes: Sequence[str], truth: str, name: str) -> None:
    """Refuse numbers where classes have names whose order is that of the alphabet, not of the model."""
    numbered = [f"{_NUMBERED}{k}" for k in range(len(classes))]
    if list(classes) == numbered or all(map(str.isdecimal, classes)):
        return
    texts = as_texts(labels)
    if texts is None or (classes[0] not in texts and all(whole_number(each) is not None for each in texts)):
        raise InputError(
            f"`{truth}` holds numbers and `{name}` names ({', '.join(classes[:3])}, …): which number is "
            f"which? Write the names in `{truth}`."
        )


def _array(name: str, values: Any) -> Any:
    if name in {"class_names", "groups", "clusters", "kind", MARK}:
        return [str(each) for each in values] if isinstance(values, list) else values
    if isinstance(values, list) and values and all(isinstance(each, str) for each in values):
        return values
    try:
        found = np.asarray(values)
    except ValueError as error:
        raise InputError(f"`{name}` must hold as many numbers in every row.") from error
    if found.dtype.kind not in "biuf":
        raise InputError(f"`{name}` must hold numbers in every row; some hold none.")
    return found


def _cells(name: str, records: Sequence[Record]) -> Column:
    values = [record.get(name) for record in records]
    if all(isinstance(each, int) for each in values):  # bool is one
        return np.asarray([int(each) for each in values if each is not None])
    return ["" if each is None else str(each) for each in values]
