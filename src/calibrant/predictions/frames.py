"""Convert between predictions and data frames."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from calibrant._math.errors import InputError
from calibrant.predictions.checks import Kind
from calibrant.predictions.formats.aliases import ColumnNames, as_named
from calibrant.predictions.formats.columns import LIBRARIES, Library
from calibrant.predictions.formats.tables import fields_of_table, table_of_columns
from calibrant.predictions.scale import Scale, as_shares
from calibrant.predictions.table import Predictions

_OPTION = re.compile(r" \(--[^)]*\)")


def predictions_from_frame(
    frame: Any,
    *,
    columns: ColumnNames | None = None,
    kind: Kind | None = None,
    scale: Scale | None = None,
    positive_class: str | None = None,
) -> Predictions:
    """Read predictions from a pandas or polars data frame with one row per sample.

    The columns go by the names that they have in a ``.csv`` file (:func:`load_predictions`): ``label`` with
    ``prob_0, prob_1, …`` or ``logit_cat, logit_dog``, ``prob`` alone, or ``confidence`` with ``correct``;
    and ``split``, ``weight`` and ``group``. Common other names are understood, as ``y_true`` and ``p_spam``.

    Args:
        frame: The data frame; it is not changed.
        columns: Names of columns that differ from these.
        kind: See :func:`load_predictions`.
        scale: See :func:`load_predictions`.
        positive_class: See :func:`load_predictions`.

    Returns:
        Predictions of the same values.

    Raises:
        TypeError: If it is not a data frame.
        InputError: If columns are missing or have wrong content.

    Example:
        >>> import pandas
        >>> frame = pandas.DataFrame({"label": [0, 1, 1], "prob": [0.2, 0.7, 0.9]})
        >>> predictions_from_frame(frame).probs.tolist()
        [0.2, 0.7, 0.9]
    """
    kind_of_frame = type(frame)
    library = kind_of_frame.__module__.partition(".")[0]
    if kind_of_frame.__name__ != "DataFrame" or library not in LIBRARIES:
        raise TypeError(f"`frame` must be a pandas or polars DataFrame; got {type(frame).__name__}.")
    names = [str(name) for name in frame.columns]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"`frame` must have columns of different names; {repeated[0]!r} stands twice.")

    def in_words_of_frame(said: str) -> str:  # options of the command line are of another door
        return _OPTION.sub("", as_named(said, columns, lambda: names))

    try:
        cells = {name: _cells(frame[given]) for name, given in zip(names, frame.columns, strict=True)}
        fields = as_shares(fields_of_table(table_of_columns(cells), columns), scale)
        kind = kind or fields.pop("kind", None)
        found = Predictions(**fields, kind=kind, positive_class=positive_class)
        return found._named(in_words_of_frame)  # pyright: ignore[reportPrivateUsage]
    except (InputError, TypeError) as error:
        raise InputError(in_words_of_frame(str(error))) from error


def predictions_to_frame(predictions: Predictions, *, library: Library | None = None) -> Any:
    """Return predictions as a data frame that :func:`predictions_from_frame` reads back.

    Args:
        predictions: Any.
        library: ``"pandas"`` or ``"polars"``; by default the one that is installed, pandas first.

    Returns:
        The frame, one row per sample, with the columns of a ``.csv`` file.

    Raises:
        InputError: If the library is another, or a name of a class cannot be that of a column.
        ImportError: If the library is not installed.

    Example:
        >>> p = Predictions(probs=[0.2, 0.7], labels=[0, 1])
        >>> predictions_to_frame(p, library="pandas").columns.tolist()
        ['label', 'prob']
    """
    return predictions.to_frame(library=library)


def _cells(series: Any) -> Any:
    """Return numbers in float64 or as integers; others as lists, ``None`` where one is missing."""
    cells = series.to_numpy()
    if cells.dtype.kind not in "biuf" or cells.ndim != 1:
        rows = [each.tolist() if hasattr(each, "tolist") else each for each in series.to_list()]
        rows = [list(each) if isinstance(each, tuple) else each for each in rows]
        rows = [None if each is None or each != each else each for each in rows]
        if not rows or not all(isinstance(each, bool | int | float | np.number) for each in rows):
            return rows
        cells = np.asarray(rows)
    if cells.dtype.kind != "f":
        return cells
    cells = cells.astype(np.float64)
    return [None if each != each else each for each in cells.tolist()] if np.isnan(cells).any() else cells
