"""A table as tidy CSV: a row for each cell, numbers to twelve digits."""

from __future__ import annotations

import csv
import io
import json

from calibrant_lab.tables.build import Table
from calibrant_lab.tables.cells import Cell

_COLUMNS = (
    "quantity",
    "unit",
    "stage",
    "mean",
    "low",
    "high",
    "n",
    "values",
    "bracket",
    "finished",
    "diverged",
    "failed",
    "wanted",
    "best",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "p_adjusted",
    "test",
    "published",
    "published_sd",
    "published_temperature",
    "difference_from_published",
    "published_note",
)


def csv_text(table: Table) -> str:
    """A row for each cell: intervals at 95 %, ``values`` by what the runs repeat, as JSON."""
    levels = table.layout.levels
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*levels, *_COLUMNS])
    for cell in table.flat:
        keys = cell.keys
        writer.writerow([*(keys.get(level, "") for level in levels), *_row(cell)])
    return buffer.getvalue()


def _row(cell: Cell) -> list[object]:
    quantity, mean, against, printed = cell.quantity, cell.mean, cell.against, cell.printed
    gap = None if against is None else against.difference
    ends = [None, None] if mean is None or mean.half_width is None else [mean.low, mean.high]
    gaps = [None, None] if gap is None or gap.half_width is None else [gap.low, gap.high]
    fact = None if printed is None else printed.fact
    found = [
        quantity.title,
        quantity.unit,
        " | ".join(cell.stages),
        None if mean is None else mean.value,
        *ends,
        0 if mean is None else mean.n,
        json.dumps({str(key): float(f"{value:.12g}") for key, value in cell.values.items()}),
        cell.bracket,
        *(cell.runs.get(status, 0) for status in ("finished", "diverged", "failed")),
        cell.wanted,
        int(cell.best),
        None if gap is None else gap.value,
        *gaps,
        *((None, None, None) if against is None else (against.p, against.adjusted, against.test)),
        *(("", "", "") if fact is None else (fact.value, fact.sd, fact.temperature)),
        None if printed is None else printed.difference,
        "" if fact is None else fact.note,
    ]
    return [_plain(value) for value in found]


def _plain(value: object) -> object:
    """Twelve digits: the last few are not the same on every machine."""
    if isinstance(value, float):
        return f"{value:.12g}"
    return "" if value is None else value
