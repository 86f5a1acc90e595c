"""Group samples by bands of a number, such as a token's position."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._math.arrays import ArrayLike
from calibrant._math.errors import InputError
from calibrant.predictions.checks import as_number, as_texts, shown

MOST_BANDS = 8


def named_bands(text: str) -> tuple[str, tuple[float, ...]]:
    """Return a column and the starts of its bands: ``position``, or ``position:0:128:512``."""
    name, *rest = text.split(":")
    starts = tuple(float("nan") if (start := as_number(each)) is None else start for each in rest)
    if not all(a < b for a, b in itertools.pairwise((float("-inf"), *starts))):
        raise InputError(f"`bands` must begin at rising numbers, as in {name}:0:128:512; got {text}.")
    return name, starts


def bands_of(
    values: ArrayLike, *, name: str = "values", most: int = MOST_BANDS, starts: Sequence[float] = ()
) -> list[str]:
    """Return the band of each sample: neighbouring numbers, in groups of roughly equal size.

    Args:
        values: A number for each sample, shape ``(N,)``.
        name: What it is called in messages.
        most: How many bands there are at most; equal numbers are never parted.
        starts: Where bands begin, so that they are the same in every file; then ``most`` does not count.

    Returns:
        ``"0–127"`` and such.

    Raises:
        InputError: If something is no number.

    Example:
        >>> bands_of([0, 1, 2, 3, 3, 9], most=3)
        ['0–1', '0–1', '2', '3–9', '3–9', '3–9']
        >>> bands_of([0, 200, 700], starts=(0, 128, 512))
        ['0–127', '128–511', '512+']
    """
    numbers = _numbers(values, name)
    if starts:
        whole = bool((numbers == np.round(numbers)).all()) and all(each == int(each) for each in starts)
        text = _texts(starts)
        inner = [
            f"{text[a]}–{_text(b - 1)}" if whole else f"{text[a]}–<{text[b]}"
            for a, b in itertools.pairwise(starts)
        ]
        named = [f"<{text[starts[0]]}", *inner, f"{text[starts[-1]]}+"]
        return [named[k] for k in np.searchsorted(starts, numbers, "right").tolist()]
    distinct, place, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    # A number goes where the middle of its samples lies among all samples.
    middles = (np.cumsum(counts) - counts / 2) / len(numbers)
    band = np.minimum((middles * most).astype(np.int64), most - 1)
    firsts, lasts = distinct[np.searchsorted(band, band)], distinct[np.searchsorted(band, band, "right") - 1]
    text = _texts([*firsts.tolist(), *lasts.tolist()])
    names = [
        text[first] if first == last else f"{text[first]}–{text[last]}"
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
    ]
    return [names[k] for k in place.tolist()]


def _numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    texts = as_texts(values)
    found: list[Any] | NDArray[Any] = texts if texts is not None else np.asarray(values)
    try:
        numbers = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.array([as_number(each) for each in found], dtype=np.float64)  # None becomes NaN
    if (bad := np.flatnonzero(~np.isfinite(numbers))).size:
        row = int(bad[0])
        raise InputError(
            f"`{name}` must hold a number in every row; row {row} holds {shown(str(found[row]))}."
        )
    return numbers


def _texts(numbers: Sequence[float]) -> dict[float, str]:
    """Return short labels for numbers: four digits, or enough that all labels differ."""
    distinct = set(numbers)
    for digits in range(4, 18):
        texts = {each: _text(each, digits) for each in distinct}
        if len(set(texts.values())) == len(distinct):
            return texts
    return {each: repr(each) for each in distinct}


def _text(number: float, digits: int = 4) -> str:
    return f"{int(number)}" if number == int(number) and abs(number) < 1e15 else f"{number:.{digits}g}"
