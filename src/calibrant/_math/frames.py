"""Data frames of pandas and polars: columns out of them, and frames out of columns."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant._math.errors import InputError

Library: TypeAlias = Literal["pandas", "polars"]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars")


def is_frame(value: object) -> bool:
    """Whether a value is a frame of pandas or of polars; neither is imported to tell."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] in LIBRARIES


def frame_columns(frame: Any) -> dict[str, np.ndarray[Any, np.dtype[Any]] | list[Any]]:
    """Columns by name: numbers without gaps as arrays, others as lists with ``None``; refuses equal names."""
    names = [str(name) for name in frame.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"`frame` must have columns of different names; {repeated[0]!r} stands twice.")
    return {name: _column(frame[original]) for name, original in zip(names, frame.columns, strict=True)}


def _column(series: Any) -> np.ndarray[Any, np.dtype[Any]] | list[Any]:
    values = series.to_numpy()
    if values.dtype.kind in "biuf":
        return values
    rows = [None if each is None or each != each else each for each in series.to_list()]
    numeric = all(isinstance(each, bool | int | float | np.number) for each in rows)
    return np.asarray(rows) if rows and numeric else rows


def frame_of(columns: Mapping[str, Sequence[Any]], library: Library | None = None) -> Any:
    """A frame of columns by name; by default of pandas, or of polars where that alone is installed."""
    if library is not None and library not in LIBRARIES:
        raise InputError(f'`library` must be "pandas" or "polars"; got {library!r}.')
    for name in LIBRARIES if library is None else (library,):
        try:
            found = importlib.import_module(name)
        except ImportError:
            continue
        return found.DataFrame({key: list(values) for key, values in columns.items()})
    wanted = library or "pandas"
    raise ImportError(f"frames need {wanted}, which is not installed: `pip install {wanted}`.")
