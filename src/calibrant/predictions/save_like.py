"""Write repaired predictions in the form of their source file."""

from __future__ import annotations

import csv
import itertools
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.files import atomic_write
from calibrant.predictions.files import found_ending
from calibrant.predictions.formats import (
    csv_file,
    excel,
    inspect_log,
    json_file,
    lm_eval,
    parquet,
    parquet_files,
    tables,
)
from calibrant.predictions.formats.aliases import ColumnNames, canonical, space_of
from calibrant.predictions.formats.columns import layout_of
from calibrant.predictions.formats.mark import MARK, mark_in
from calibrant.predictions.formats.roster import WORKBOOKS, WRITERS, known_ending
from calibrant.predictions.scale import scale_before
from calibrant.predictions.table import Predictions


def save_in_form_of(
    source: Path,
    out: Path,
    predictions: Predictions,
    *,
    columns: ColumnNames | None = None,
    format: str | None = None,  # noqa: A002
    raw: bool = False,
    added: Mapping[str, Sequence[float]] | None = None,
) -> bool:
    """Write predictions as their source table: all its columns, with these scores for its rows, in order.

    ``columns`` and ``format`` are those with which :func:`load_predictions` read the table. With ``raw``,
    texts that a spreadsheet would run as formulas stay; else they get a ``'`` before them, with a warning.
    ``added`` are further columns of probabilities. Returns whether columns were kept; where the source is not
    a table, or ``out`` is of another kind of file, the predictions alone are written (of a log, with what
    says which each is).

    Raises:
        InputError: If the ending of ``out`` is unknown, the table is no longer what was read, or there are
            columns to add to what is not a table, or that it has already.
    """
    new_ending, ending = known_ending(out, WRITERS), found_ending(source, format)
    with atomic_write(out) as temporary:
        return write_in_form_of(
            source, ending, temporary, new_ending, predictions, columns, raw=raw, added=added
        )


_TEXT = frozenset({".csv", ".csv.gz", ".tsv", ".tsv.gz"})
_JSON = frozenset({".jsonl", ".ndjson", ".json", ".eval"})
_WHOLE = frozenset({".json", ".eval"})
_ARROW = frozenset({".parquet", ".feather", ".arrow"})
_FORMULA = re.compile(r"\s*[=@]|\s*[+-](?!\s*[\d.,]+(e[+-]?\d+)?\s*%?\s*$)", flags=re.IGNORECASE)
"""Texts that a spreadsheet runs; numbers with a sign are none."""


def write_in_form_of(
    source: Path,
    ending: str,
    out: Path,
    new_ending: str,
    predictions: Predictions,
    columns: ColumnNames | None = None,
    *,
    raw: bool = False,
    added: Mapping[str, Sequence[float]] | None = None,
) -> bool:
    """Write as :func:`save_in_form_of`, by known endings that the paths can lack.

    Columns of logits are called ``prob...`` then, as they hold probabilities; all other names stay.
    """
    read_as = ".csv" if ending in WORKBOOKS else ending
    family = next((each for each in (_TEXT, _JSON, _ARROW) if {read_as, new_ending} <= each), None)
    if family is not None:
        found = predictions.confidence if predictions.kind == "top_label" else predictions.probs
        low, high = scale_before(predictions.notes)
        scores = low + (high - low) * found.numpy().astype(np.float64).reshape(len(predictions), -1)
        more = {name: [low + (high - low) * cell for cell in cells] for name, cells in (added or {}).items()}
        mark = mark_in(predictions.notes)
        more |= {} if mark is None else {MARK: [mark.text] * len(scores)}
        copy = _Copy(source, ending, out, new_ending, scores, columns, more)
        if family is _TEXT:
            copy.write_text(raw=raw)
        elif family is _ARROW:
            copy.write_arrow()
        if family is not _JSON or copy.write_json():
            return True
    if added:
        raise InputError("columns can only be added to a table, such as .csv or .parquet, written as one.")
    WRITERS[new_ending](predictions._arrays(), out)  # pyright: ignore[reportPrivateUsage]
    if family is _JSON:
        _add_samples(source, ending, out, new_ending, predictions.notes, columns)
    return False


@dataclass(frozen=True, eq=False)
class _Copy:
    """Copy of a table with other scores, and with extra columns."""

    source: Path
    ending: str
    out: Path
    new_ending: str
    scores: NDArray[np.float64]  # (N, k)
    columns: ColumnNames | None
    added: Mapping[str, Sequence[float | str]]

    def write_text(self, *, raw: bool) -> None:
        if self.ending in WORKBOOKS:
            rows, delimiter = excel.texts(self.source, self.columns), ","
        else:
            with csv_file.open_text(self.source) as file:
                start, delimiter = csv_file.beginning(file)
                rows = [cells for _, cells in csv_file.lines(itertools.chain(start, file), delimiter)]
        header = [name.strip() for name in rows[0]]
        places = self._places(header)
        self._check_rows(len(rows) - 1)
        old = [row[place] for row in rows[1:] for place in places]
        commas = any("," in cell for cell in old)
        sign = "%" if any(cell.strip().endswith("%") for cell in old) else ""

        def cell(value: float) -> str:
            return (repr(value).replace(".", ",") if commas else repr(value)) + sign

        for row, values in zip(rows[1:], self.scores.tolist(), strict=True):
            for place, value in zip(places, values, strict=True):
                row[place] = cell(value)
        for place, title in places.items():
            rows[0][place] = title
        for name, cells in self.added.items():
            place = header.index(name) if name in header else len(rows[0])
            for row, value in zip(rows, [name, *cells], strict=True):
                row[place : place + 1] = [value if isinstance(value, str) else cell(value)]
        if not raw:
            _escape_formulas(rows)
        if self.ending != self.new_ending and ".tsv" in self.ending + self.new_ending:
            delimiter = "\t" if ".tsv" in self.new_ending else ","
        with csv_file.open_text(self.out, "w") as file:
            csv.writer(file, lineterminator="\n", delimiter=delimiter).writerows(rows)

    def write_json(self) -> bool:
        """Write records; nothing if the source holds named arrays or a log."""
        found = json_file.contents(self.source, whole=self.ending in _WHOLE)
        if isinstance(found, dict) or lm_eval.are_samples(found[0]):
            return False
        records = found[0]
        new = self._exchanged(tables.table_of_records(records), len(records))
        changed = [
            {
                new[name][0] if name in new else name: new[name][1][row] if name in new else cell
                for name, cell in record.items()
            }
            | {name: cells[row] for name, cells in self.added.items()}
            for row, record in enumerate(records)
        ]
        json_file.write_records(changed, self.out, whole=self.new_ending == ".json")
        return True

    def write_arrow(self) -> None:
        table = parquet_files.whole_table(self.source, feather=self.ending != ".parquet")
        new = self._exchanged(parquet.table_in(table.schema, table.column), table.num_rows)
        for name, cells in self.added.items():
            table = table.drop_columns([name] if name in table.column_names else [])
            table = table.append_column(name, [cells])
        for name, (title, cells) in new.items():
            table = table.set_column(table.column_names.index(name), title, [cells])
        parquet.write_table(table, self.out, feather=self.new_ending != ".parquet")

    def _exchanged(self, table: tables.Table, count: int) -> dict[str, tuple[str, list[Any]]]:
        self._check_rows(count)
        rows = self.scores.tolist()
        if (piped := tables.piped_in(table)) is not None:
            cells = table.column(piped)
            place = {
                label: k for k, label in enumerate(tables.pipeline_classes(str(e["label"]) for e in cells[0]))
            }
            scored = [
                [{**each, "score": values[place[str(each["label"])]]} for each in cell]
                for cell, values in zip(cells, rows, strict=True)
            ]
            return {piped: (piped, scored)}
        if lists := tables.lists_of_scores(table, self.columns):
            return {lists[0]: (lists[0] if space_of(lists[0]) == "probs" else "probs", rows)}
        columns = zip(self._places(table.names).items(), self.scores.T.tolist(), strict=True)
        return {table.names[place]: (title, cells) for (place, title), cells in columns}

    def _places(self, given: Sequence[str]) -> dict[int, str]:
        if taken := [name for name in self.added if name != MARK and name in given]:
            raise InputError(f"the file has a column `{taken[0]}` already; rename it.")
        header = canonical(given, self.columns)
        found: dict[int, str] = {}
        for name in layout_of(header).scores:
            place = header.names.index(name)
            title = given[place]
            if name.startswith("logit"):
                title = f"prob{name.removeprefix('logit')}"
                while title in given:
                    title = f"repaired_{title}"
            found[place] = title
        return found

    def _check_rows(self, count: int) -> None:
        if count != len(self.scores):
            raise InputError(f"the file had {len(self.scores)} rows when it was read and now has {count}.")


def _add_samples(
    source: Path, ending: str, out: Path, new_ending: str, notes: Sequence[str], columns: ColumnNames | None
) -> None:
    """Write the sample id of each row next to ``out``, if the source is a log."""
    found = json_file.contents(source, whole=ending in _WHOLE)
    if inspect_log.is_log(found):
        samples, which = inspect_log.samples_read(found, notes, columns), inspect_log.WHICH_SAMPLE
    elif not isinstance(found, dict) and lm_eval.are_samples(found[0]):
        samples, which = lm_eval.samples_read(found[0]), lm_eval.WHICH_SAMPLE
    else:
        return
    rows, _ = json_file.records_of(out, whole=new_ending == ".json")
    kept = [name for name in which if all(isinstance(each.get(name), str | int | float) for each in samples)]
    pairs = zip(samples, rows, strict=True)
    json_file.write_records(
        [{name: each[name] for name in kept} | row for each, row in pairs], out, whole=new_ending == ".json"
    )


def _escape_formulas(rows: list[list[str]]) -> None:
    found = 0
    for row in rows:
        for place, text in enumerate(row):
            if _FORMULA.match(text):
                row[place], found = f"'{text}", found + 1
    if found:
        warnings.warn(
            f"{found} text{'s' * (found > 1)} that a spreadsheet would run as formulas got a ' before them; "
            "--raw keeps such texts as they are.",
            CalibrantWarning,
            stacklevel=2,
        )
