"""Columns of numbers, however a cell says them: typed, as text, with a decimal comma or a percent sign."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from calibrant._math.checks import NO_NUMBER
from calibrant._math.errors import InputError
from calibrant.predictions.checks import shown
from calibrant.predictions.scale import DIVIDED

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")


def _number(value: Any) -> float:
    """A number as most programs write it: not nan, and without the underscores that Python allows."""
    found = float(value)
    if found != found or (isinstance(value, str) and "_" in value):
        raise ValueError(value)
    return found


def numbers_in(
    columns: Mapping[str, Any], scores: Sequence[str], space: str
) -> tuple[dict[str, Numbers], tuple[str, ...]]:
    """Columns as numbers, and what a reader should know about how they were read.

    Args:
        columns: Cells by the name of their column.
        scores: Those columns that may have percent signs.
        space: What scores are.

    Raises:
        InputError: If a cell holds no number, or the comma in it can mean two things; with its row.

    Example:
        >>> found, notes = numbers_in({"prob": ["12,5%", "7%"]}, ["prob"], "probs")
        >>> found["prob"].tolist(), notes[0]
        ([0.125, 0.07], '`prob` has decimal commas.')
    """
    found: dict[str, Numbers] = {}
    commas: dict[str, dict[int, str]] = {}
    signs: dict[str, set[int]] = {}
    for name, cells in columns.items():
        found[name] = np.empty(len(cells))
        for row, cell in enumerate(cells):
            try:
                found[name][row] = _number(cell)
            except (TypeError, ValueError, OverflowError):
                text = "" if cell is None or cell != cell else str(cell).strip()
                if name in scores and text.endswith("%"):
                    signs.setdefault(name, set()).add(row)
                    text = text.removesuffix("%").strip()
                if "," in text:
                    commas.setdefault(name, {})[row] = text
                found[name][row] = _with_point(text, name, row, cell)
    notes: list[str] = []
    if commas:
        _refuse_two_meanings(columns, commas)
        notes.append(", ".join(f"`{name}`" for name in commas) + f" ha{_s(commas)} decimal commas.")
    if signs:
        _refuse_some_signs(signs, scores, len(next(iter(columns.values()))), space)
        found |= {name: found[name] / 100 for name in scores}
        notes.append(f"`{space}` {DIVIDED}")
    return found, tuple(notes)


def _s(columns: Mapping[str, Any]) -> str:
    return "s" if len(columns) == 1 else "ve"


def _with_point(text: str, name: str, row: int, cell: Any) -> float:
    try:
        return _number(text.replace(",", "."))
    except (ValueError, OverflowError):
        said = f"holds {shown(str(cell))}" if text else "is empty"
        remedy = "; write it without commas between thousands" if _THOUSANDS.fullmatch(text) else ""
        remedy = f"; {NO_NUMBER}" if text.lower() == "nan" else remedy
        raise InputError(f"`{name}` must hold a number in every row; row {row} {said}{remedy}.") from None


def _refuse_two_meanings(columns: Mapping[str, Any], commas: Mapping[str, Mapping[int, str]]) -> None:
    """Refuse commas beside decimal points, and commas that may separate thousands."""
    name = next(iter(commas))
    row, text = next(iter(commas[name].items()))
    if any("." in cell for cells in columns.values() for cell in cells if isinstance(cell, str)):
        raise InputError(
            f"numbers must all have a decimal point or all a decimal comma; row {row} holds {text!r} in "
            f"`{name}`, and others have points."
        )
    decimal = {name for name, each in commas.items() if not all(map(_THOUSANDS.fullmatch, each.values()))}
    for name, each in commas.items():
        plain = (row for row, cell in enumerate(columns[name]) if row not in each and _whole(cell))
        if name not in decimal and (not decimal or any(plain)):
            row, text = next(iter(each.items()))
            raise InputError(
                f"`{name}` must hold numbers that mean one thing; row {row} holds {text!r}, which is "
                f"{text.replace(',', '')} or {float(text.replace(',', '.')):g}: write it without the comma."
            )


def _whole(cell: Any) -> bool:
    """Whether it is a number other than 0 without decimals."""
    return str(cell).strip().removesuffix("%").lstrip("+-").strip("0") != ""


def _refuse_some_signs(
    signs: Mapping[str, set[int]], scores: Sequence[str], num_rows: int, space: str
) -> None:
    name, row = min(((name, min(rows)) for name, rows in signs.items()), key=lambda each: each[1])
    if space == "logits":
        raise InputError(f"logits are no percentages; row {row} of `{name}` has a % sign.")
    if any(len(signs.get(each, ())) < num_rows for each in scores):
        raise InputError(
            f"all scores must have a % sign or none; row {row} of `{name}` has one, and others have none."
        )
