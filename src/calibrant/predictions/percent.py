"""Percentages in place of probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import as_float_tensor
from calibrant._math.errors import InputError

LARGEST_SHARE = 2.0
"""What no probability reaches by rounding."""
SHARE_ABOVE_ONE = 0.5
"""Of a single column, at least, so that a slip in a few cells does not divide all the others."""
_DIVIDED = "holds percentages and was divided by 100."
SPACES = ("probs", "confidence")


def as_shares(fields: dict[str, Any], percent: bool | None) -> dict[str, Any]:
    """The fields with percentages divided by 100, which a note says; by default where only they can be meant.

    Raises:
        InputError: If percentages are said to be there, and there are logits.
    """
    space = next((name for name in SPACES if name in fields), None)
    if space is None:
        if percent:
            raise InputError("it holds logits, which are not percentages; leave out `percent` (--percent).")
        return fields
    values = fields[space]
    if isinstance(values, list | tuple):
        values = np.asarray(values)
    if percent is False or not isinstance(values, np.ndarray | torch.Tensor):
        return fields
    if not percent and not _are_percentages(values):
        return fields
    note = f"`{space}` {_DIVIDED}"
    return fields | {space: values / 100, "notes": (*fields.get("notes", ()), note)}


def holds_percentages(fields: dict[str, Any]) -> bool:
    """Whether the fields hold what is divided by 100."""
    return len(as_shares(fields, None).get("notes", ())) > len(fields.get("notes", ()))


def were_percentages(notes: Iterable[str]) -> bool:
    """Whether the notes on predictions say so."""
    return any(note.endswith(_DIVIDED) for note in notes)


def _are_percentages(values: np.ndarray[Any, np.dtype[Any]] | Tensor) -> bool:
    """Whether all lie in [0, 100], some beyond any probability, and most exceed 1 or rows sum to 100."""
    try:
        table = as_float_tensor(values, name="probs")
    except TypeError:  # texts; what is wrong with other values is said where they are read
        return False
    if not table.numel() or table.ndim not in {1, 2} or not bool(torch.isfinite(table).all()):
        return False
    if not (float(table.min()) >= 0 and LARGEST_SHARE < float(table.max()) <= 100):
        return False
    if table.ndim == 1:
        return float((table > 1).to(torch.float64).mean()) >= SHARE_ABOVE_ONE
    return bool(((table.to(torch.float64).sum(dim=1) - 100).abs() <= 1).all())
