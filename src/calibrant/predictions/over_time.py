"""Predictions of a deployed model: the time of each, and whether its label is known."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._math.errors import InputError
from calibrant.predictions.checks import listing, shown
from calibrant.predictions.files import found_ending, load_predictions, sha256_of
from calibrant.predictions.formats import inspect_log, json_file
from calibrant.predictions.formats.aliases import ColumnNames, as_named
from calibrant.predictions.formats.contents import lines_named
from calibrant.predictions.formats.mark import Source
from calibrant.predictions.formats.roster import format_at
from calibrant.predictions.formats.tables import (
    Table,
    fields_of_table,
    layout_of_table,
    values_in,
    with_lists_spread,
)
from calibrant.predictions.labels import missing_rows
from calibrant.predictions.table import Predictions


@dataclass(frozen=True, kw_only=True)
class TimedPredictions:
    """Stream of predictions for :func:`calibrant.evaluation.monitor`."""

    predictions: Predictions
    times: NDArray[Any]
    """Dates in UTC, or numbers."""
    labelled: NDArray[np.bool_]
    """Mask of known labels; the others are placeholders."""


def load_timed(
    path: str | os.PathLike[str],
    *,
    time: str,
    columns: ColumnNames | None = None,
    format: str | None = None,  # noqa: A002
) -> TimedPredictions:
    r"""Read a table of predictions with a column of times, in which labels may be missing.

    Args:
        path: A table as for :func:`calibrant.load_predictions`; empty cells of the label (or of ``correct``),
            and NA, NaN, null etc., are labels that are not known yet. The column can be absent.
        time: The column of times: ISO 8601 dates (converted to UTC if they have an offset), or numbers. Logs
            of inspect-ai have ``completed_at`` for each answer.
        columns: Other names of columns; see :func:`calibrant.load_predictions`.
        format: See :func:`calibrant.load_predictions`.

    Raises:
        InputError: If the file is not a table, has no such column, or a time is none.
        OSError: If it cannot be opened.

    Example:
        >>> import tempfile
        >>> text = "when,label,prob\n2026-11-20,1,0.8\n2026-11-21T10:00:00+01:00,,0.3\n"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "stream.csv"
        ...     _ = path.write_text(text)
        ...     found = load_timed(path, time="when")
        >>> found.labelled.tolist(), str(found.times[1])
        ([True, False], '2026-11-21T09:00:00')
    """
    path = Path(path)
    ending = found_ending(path, format)
    form = format_at(path, ending)
    if form.table is None:
        raise InputError(f"{path} must be a table, such as .csv or .parquet, with a column of times.")
    in_words_of_file = partial(as_named, columns=columns, names=lambda: form.names_in(path, columns))
    try:
        if ending in {".eval", ".json"} and inspect_log.is_log(log := json_file.contents(path, whole=True)):
            found = load_predictions(path, columns=columns, format=ending[1:])
            samples = inspect_log.samples_read(log, found.notes, columns)
            table = Table(names=[time], column=lambda name: values_in(samples, name, "metadata"))
            known = np.full(len(samples), fill_value=True)
            return TimedPredictions(predictions=found, times=_times(table, time), labelled=known)
        table = form.table(path, columns)
        with lines_named(table.lines):
            times = _times(table, time)
            table, labelled = _filled(table.exchanged({time: {}}), columns, len(times))
            if columns is not None and not labelled.any():
                columns = replace(columns, label=None)
            fields = fields_of_table(table, columns)
            source = Source(name=path.name, sha256=sha256_of(path), format=ending[1:], path=str(path))
            found = Predictions(**fields, source=source)._named(in_words_of_file)  # pyright: ignore[reportPrivateUsage]
            return TimedPredictions(predictions=found, times=times, labelled=labelled)
    except (InputError, TypeError) as error:
        said = in_words_of_file(" ".join(str(error).split()))
        raise InputError(f"{path}: {said}") from error


def _times(table: Table, name: str) -> NDArray[Any]:
    if name not in table.names:
        raise InputError(f"it holds no column `{name}` (--time); it holds {listing(table.names)}.")
    values = table.column(name)
    if not len(values):
        raise InputError("it holds no rows.")
    try:
        return np.array([float(value) for value in values])
    except (TypeError, ValueError):
        dates = [_date(value) for value in values]
    if None not in dates:
        return np.array(dates, dtype="datetime64[s]")
    odd = [row for row, date in enumerate(dates) if date is None]
    row = next((row for row in odd if not _is_number(values[row])), odd[0])
    said = "is empty" if values[row] in {None, ""} else f"holds {shown(str(values[row]))}"
    raise InputError(
        f"`{name}` must hold a date such as 2026-11-22T09:30:00 in every row, or a number; row {row} {said}."
    )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _date(value: object) -> datetime | date | None:
    """Return the date of a cell, in UTC if it has an offset."""
    found = value
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(found, datetime) and found.tzinfo is not None:
        return found.astimezone(UTC).replace(tzinfo=None)
    return found if isinstance(found, date) else None  # includes datetime


def _filled(table: Table, columns: ColumnNames | None, num_samples: int) -> tuple[Table, NDArray[np.bool_]]:
    """Fill missing labels, or drop label columns without any; return the table and the known rows."""
    layout = layout_of_table(with_lists_spread(table, columns), columns)
    wanted = layout.labels or tuple(name for name in ("correct", "true_label") if name in layout.singles)
    told = {layout.given[name]: list(table.column(layout.given[name])) for name in wanted}
    labelled = np.full(num_samples, bool(told))
    for cells in told.values():
        texts = ["" if cell is None else str(cell).strip() for cell in cells]
        labelled[missing_rows(texts, layout.class_names or ())] = False
    if not labelled.any():
        return table.exchanged({name: {} for name in told}), labelled
    known = int(labelled.argmax())
    filled = {
        name: [cell if each else cells[known] for cell, each in zip(cells, labelled, strict=True)]
        for name, cells in told.items()
    }
    return table.exchanged({name: {name: cells} for name, cells in filled.items()}), labelled
