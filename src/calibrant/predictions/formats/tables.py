"""Tables from any file, frame or records: named columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant._math.errors import InputError
from calibrant.predictions.bands import named_bands
from calibrant.predictions.checks import as_texts, listing
from calibrant.predictions.formats.aliases import ColumnNames, canonical, said_of_names, space_of
from calibrant.predictions.formats.columns import (
    FAMILIES,
    Column,
    Layout,
    fields_of_cells,
    layout_of,
    lists_as_rows,
)
from calibrant.predictions.formats.top_k import fields_of_top_k, holds_top_k
from calibrant.predictions.labels import whole_number

_EXACT = frozenset({"prob", "probs", "logit", "logits"})
_PIPELINE = {"label", "score"}
_PIPELINE_KEYS = ("scores", "probs", "predictions", "prediction", "output", "outputs")
_NUMBERED = "LABEL_"
"""Default name of class i in Hugging Face's models."""
_MOST_LISTED = 12


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns with a cell for each sample."""

    names: Sequence[str]
    column: Callable[[str], Column]
    """Numbers as an array, ``(N, k)`` where cells are lists; or else the cells, ``None`` where empty."""
    lists: frozenset[str] = frozenset()
    """The columns whose cells are lists."""
    records: frozenset[str] = frozenset()
    """Columns of lists that hold records."""
    lines: Sequence[int] = ()
    """The line of text that each row ends on."""
    keys: Sequence[str] = ()
    """The columns that folders are named by."""
    notes: tuple[str, ...] = ()

    def exchanged(self, columns: Mapping[str, Mapping[str, Column]]) -> Table:
        """Replace some columns by others, or by none."""
        names = [each for name in self.names for each in columns.get(name, (name,))]
        new = {name: cells for each in columns.values() for name, cells in each.items()}
        return replace(
            self,
            names=names,
            column=lambda name: new[name] if name in new else self.column(name),
            lists=self.lists - columns.keys(),
        )


def table_of_columns(columns: Mapping[str, Column], lines: Sequence[int] = ()) -> Table:
    firsts = {name: cells[0] for name, cells in columns.items() if len(cells) and isinstance(cells[0], list)}
    return Table(
        names=[*columns],
        column=columns.__getitem__,
        lists=frozenset(firsts),
        records=frozenset(name for name, first in firsts.items() if first and isinstance(first[0], dict)),
        lines=lines,
    )


def table_of_records(
    records: Sequence[Mapping[str, Any]], columns: ColumnNames | None = None, lines: Sequence[int] = ()
) -> Table:
    """Return a table of records; nested fields can be named: ``doc.subject``."""
    names = dict.fromkeys(name for record in records for name in record)
    cells: dict[str, Column] = {name: [record.get(name) for record in records] for name in names}
    nested = [name for name in names_stated(columns) if "." in name and name not in names]
    return table_of_columns(cells | {name: values_in(records, name) for name in nested}, lines)


def fields_of_table(table: Table, columns: ColumnNames | None = None) -> dict[str, Any]:
    if holds_top_k(table.names):
        return fields_of_top_k(table.names, table.column, columns)
    spread = with_lists_spread(table, columns)
    layout = layout_of_table(spread, columns)
    piped = piped_in(table)
    layout = layout if piped is None else replace(layout, called=())  # labels call classes as it does
    fields = fields_of_cells(layout, spread.column)
    if piped is not None and "labels" in fields:
        _refuse_numbers_for_names(fields["labels"], spread.names, layout.truth, piped)
    return fields | {"notes": (*spread.notes, *fields["notes"])}


def layout_of_table(table: Table, columns: ColumnNames | None) -> Layout:
    layout = layout_of(canonical(table.names, columns))
    scores = (layout.given[each] for each in layout.scores)
    if wrong := next((each for each in scores if each in table.keys), None):
        raise InputError(
            f"`{wrong}` must not be what folders are named by: scores are columns of the files; rename them."
        )
    return layout


def with_lists_spread(table: Table, columns: ColumnNames | None, width: int | None = None) -> Table:
    """Return one column per class, from lists of ``width`` numbers (default: the first's) or a pipeline."""
    if (piped := piped_in(table)) is not None:
        return table.exchanged({piped: _of_pipeline(table.column(piped), piped)})
    names = lists_of_scores(table, columns)
    lists = {name: lists_as_rows(table.column(name), name, width) for name in names}
    read = {name: space_of(name) or "" for name in names}
    spread = {
        name: {f"{FAMILIES[read[name]]}_{k}": rows[:, k] for k in range(rows.shape[1])}
        for name, rows in lists.items()
    }
    notes = said_of_names({name: space for name, space in read.items() if name != space})
    return replace(table.exchanged(spread), notes=(*table.notes, *notes))


def lists_of_scores(table: Table, columns: ColumnNames | None) -> list[str]:
    """Return the columns whose cells hold the scores of all classes."""
    if columns is not None and (columns.probs or columns.logits):
        return []
    found = [name for name in table.names if name in table.lists and space_of(name)]
    found = [name for name in found if table.names.count(name) == 1]
    return [name for name in found if name.lower() in _EXACT] or found[:1]


def piped_in(table: Table) -> str | None:
    """Return the column with the output of a text-classification pipeline with ``top_k=None``."""
    candidates = (name for name in _PIPELINE_KEYS if name in table.records)
    return next((name for name in candidates if set((table.column(name)[0] or [{}])[0]) >= _PIPELINE), None)


def _of_pipeline(cells: Iterable[Any], name: str) -> dict[str, Column]:
    tables: list[dict[str, float]] = []
    for row, cell in enumerate(cells):
        try:
            tables.append({str(each["label"]): float(each["score"]) for each in cell})
        except (KeyError, OverflowError, TypeError, ValueError):
            raise InputError(f"`{name}` must list labels with scores; row {row} does not.") from None
        if tables[row].keys() != tables[0].keys():
            raise InputError(f"`{name}` must score the same labels in every row; row {row} scores others.")
    return {f"prob_{each}": np.array([row[each] for row in tables]) for each in pipeline_classes(tables[0])}


def pipeline_classes(labels: Iterable[str]) -> list[str]:
    """Return a pipeline's classes in order: ``LABEL_10`` and the number 10 are the tenth."""
    numbers = {each: each.removeprefix(_NUMBERED) for each in labels}
    if all(map(str.isdecimal, numbers.values())):
        return sorted(numbers, key=lambda each: int(numbers[each]))
    return sorted(numbers)


def _refuse_numbers_for_names(labels: Any, names: Sequence[str], truth: str, piped: str) -> None:
    """Refuse numeric labels if the classes have names in alphabetical order, not the model's."""
    classes = [name.removeprefix("prob_") for name in names if name.startswith("prob_")]
    if classes == [f"{_NUMBERED}{k}" for k in range(len(classes))] or all(map(str.isdecimal, classes)):
        return
    texts = as_texts(labels)
    if texts is None or (classes[0] not in texts and all(whole_number(each) is not None for each in texts)):
        raise InputError(
            f"`{truth}` holds numbers and `{piped}` names ({', '.join(classes[:3])}, …): which number is "
            f"which? Write the names in `{truth}`."
        )


def names_stated(columns: ColumnNames | None) -> list[str]:
    """Return the column names that the caller gives."""
    if columns is None:
        return []
    bands = (name for name, _ in map(named_bands, columns.bands))
    named = (columns.label, columns.weight, columns.cluster, *columns.groups, *bands)
    return [each for each in (*named, *columns.probs, *columns.logits) if each is not None]


def values_in(records: Sequence[Mapping[str, Any]], name: str, within: str = "") -> list[Any]:
    """Return a field of every record, or ``None``; fields ``within`` one need no prefix."""
    paths = [(name,), tuple(name.split("."))]
    paths += [(within, *path) for path in paths] if within else []
    for path in paths:
        found = [_at(record, path) for record in records]
        if any(each is not None for each in found):
            return found
    names = list(dict.fromkeys(_names(records[0])))
    raise InputError(f"it holds no field `{name}`; it holds {listing(names[:_MOST_LISTED])}.")


def _at(record: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = record
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _names(record: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _names(value, f"{before}{name}.")
        elif not isinstance(value, list):
            yield f"{before}{name}"
