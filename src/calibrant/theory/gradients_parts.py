"""What the files on focal loss's gradient share: R, a check, and a root between signs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.theory.bracket import bracket


def check_probabilities(p: ArrayLike | float) -> Tensor:
    """Any shape, each value in [0, 1]."""
    probs = (
        torch.tensor(p, dtype=torch.float64) if isinstance(p, float | int) else as_float_tensor(p, name="p")
    )
    if not bool(((probs >= 0) & (probs <= 1)).all()):
        bad = probs[~((probs >= 0) & (probs <= 1))].reshape(-1)[0].item()
        raise InputError(f"`p` must lie in [0, 1]; got {bad:g}.")
    return probs


def ratio_of(probs: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """R, with its limits 0 and 1 at the ends."""
    inside = (probs > 0) & (probs < 1)
    safe = torch.where(inside, probs, 0.5)
    return torch.where(inside, -safe * safe.log() / (1 - safe), (probs > 0).to(probs.dtype))


def last_positive(function: Callable[[float], float]) -> float:
    """Root in (0, 1) of a function that is positive before it and negative after it, to the last digit."""
    low, high = bracket(lambda p: function(p) > 0, 0.0, 1.0)
    return high if low == 0 else low
