"""Repaired predictions in the form of the file that they came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calibrant._math.files import atomic_write
from calibrant.predictions.files import found_ending
from calibrant.predictions.formats.aliases import ColumnNames
from calibrant.predictions.formats.mark import mark_in
from calibrant.predictions.formats.roster import WRITERS, known_ending
from calibrant.predictions.formats.same_form import add_samples, can_keep, write_like
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
) -> bool:
    """Write predictions as the table that they came from: all its columns, with these scores in place.

    Args:
        source: The table.
        out: Where to.
        predictions: With a row for each of the table's, in its order, and probabilities or confidences.
        columns: As of :func:`load_predictions`, where the table was read by such.
        format: As of :func:`load_predictions`.
        raw: Whether texts that a spreadsheet would run as formulas stay as they are; else ``'`` is put before
            them, with a warning.

    Returns:
        Whether columns were kept; where the source is not a table, or ``out`` is of another kind of file, the
        predictions alone are written (for samples of lm-evaluation-harness, with what says which each is).

    Raises:
        InputError: If the ending of ``out`` is unknown, or the table is no longer what was read.
    """
    new_ending, ending = known_ending(out, WRITERS), found_ending(source, format)
    with atomic_write(out) as temporary:
        kept = write_in_form_of(source, ending, temporary, new_ending, predictions, columns, raw=raw)
        if not kept and can_keep(ending, new_ending) and new_ending in {".json", ".jsonl", ".ndjson"}:
            add_samples(source, ending, temporary, new_ending)
    return kept


def write_in_form_of(
    source: Path,
    ending: str,
    out: Path,
    new_ending: str,
    predictions: Predictions,
    columns: ColumnNames | None = None,
    *,
    raw: bool = False,
) -> bool:
    """The same, where the endings are known and the paths need not have them."""
    if can_keep(ending, new_ending):
        scores = predictions.confidence if predictions.kind == "top_label" else predictions.probs
        table = scores.numpy().astype(np.float64).reshape(len(predictions), -1)
        low, high = scale_before(predictions.notes)
        table = low + (high - low) * table
        mark = mark_in(predictions.notes)
        text = None if mark is None else mark.text
        if write_like(source, ending, out, new_ending, table, columns, mark=text, raw=raw):
            return True
    WRITERS[new_ending](predictions._contents.arrays(), out)  # pyright: ignore[reportPrivateUsage]
    return False
