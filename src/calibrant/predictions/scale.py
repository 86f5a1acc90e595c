"""Probabilities on another scale than 0 to 1, such as percentages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import as_float_tensor, first_row
from calibrant._math.errors import InputError
from calibrant._math.text_form import Note, of_kind

Scale: TypeAlias = tuple[float, float]
"""Values that mean 0 and 1."""
PERCENT = (0.0, 100.0)
LARGEST_GUESSED = 50.0
"""Value that no single column of stars, words or grades reaches."""
SPACES = ("probs", "confidence")


def scale_of(text: str) -> Scale:
    """Parse a scale such as 1:5."""
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        low = high = 0.0
    if low == high or not np.isfinite([low, high]).all():
        raise InputError(f"--scale must be the two ends of the scale, as in 1:5; got {text!r}.")
    return low, high


def as_shares(
    fields: dict[str, Any], scale: Scale | None = None, *, percent: bool | None = None
) -> dict[str, Any]:
    """Scale probabilities to 0..1 with a note; by default detect percentages; refuse values beyond."""
    if percent:
        if scale is not None:
            raise InputError("percentages have a scale of their own; leave out `scale` (--scale).")
        scale = PERCENT
    space = next((name for name in SPACES if name in fields), None)
    if space is None:
        if scale is not None:
            raise InputError("it holds logits, which have no scale; leave out `scale` (--scale, --percent).")
        return fields
    if scale_before(fields.get("notes", ())) == PERCENT:  # they had percent signs
        if scale not in {None, PERCENT}:
            raise InputError("percentages have a scale of their own; leave out `scale` (--scale).")
        return fields
    values = fields[space]
    if isinstance(values, list | tuple):
        values = np.asarray(values)
    if not isinstance(values, np.ndarray | torch.Tensor):
        return fields
    if scale is None:
        if percent is False or not _are_percentages(values):
            return fields
        scale = PERCENT
    low, high = scale
    if scale == PERCENT:
        note, shares = were_percentages(space), values / 100
    else:
        said = f"`{space}` from {low:g} to {high:g} was brought to the scale from 0 to 1."
        note = Note(said, "scale", scale)
        shares = (values - low) / (high - low)
        _refuse_beyond(values, space, scale)
    return fields | {space: shares, "notes": (*fields.get("notes", ()), note)}


def were_percentages(space: str) -> Note:
    return Note(f"`{space}` holds percentages and was divided by 100.", "scale", PERCENT)


def holds_percentages(fields: dict[str, Any]) -> bool:
    return scale_before(as_shares(fields).get("notes", ())) == PERCENT


def scale_before(notes: Iterable[str]) -> Scale:
    """Return the original scale of probabilities, from the notes on predictions."""
    return next((note.about for note in of_kind(notes, "scale")), (0.0, 1.0))


def _refuse_beyond(values: Any, space: str, scale: Scale) -> None:
    table = as_float_tensor(values, name=space)
    bad = (table < min(scale)) | (table > max(scale))
    if bool(bad.any()):
        row = first_row(bad)
        value = float(table[row][bad[row]].reshape(-1)[0])
        raise InputError(
            f"`{space}` must be on the scale from {min(scale):g} to {max(scale):g} (--scale); "
            f"row {row} holds {value:g}."
        )


def _are_percentages(values: np.ndarray[Any, np.dtype[Any]] | Tensor) -> bool:
    """Return True if rows sum to 100, or a column goes far beyond 1 without any fraction."""
    try:
        table = as_float_tensor(values, name="probs")
    except TypeError:  # texts; what is wrong with other values is said where they are read
        return False
    if not table.numel() or table.ndim not in {1, 2} or not bool(torch.isfinite(table).all()):
        return False
    if not (float(table.min()) >= 0 and 1 < float(table.max()) <= 100):
        return False
    if table.ndim == 2:
        return bool(((table.to(torch.float64).sum(dim=1) - 100).abs() <= 1).all())
    return float(table.max()) > LARGEST_GUESSED and not bool(((table > 0) & (table < 1)).any())
