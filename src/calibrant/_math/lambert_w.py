r"""The two real branches of Lambert's W, the solutions of :math:`w e^w = x`."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from calibrant._math.shapes import Float

# Halley's method triples the digits at every step; from the starts below four are enough.
_STEPS = 6


def lambert_w(x: Float[Tensor, "*N"], *, branch: Literal[0, -1] = 0) -> Float[Tensor, "*N"]:
    r"""Branch 0 (at least -1, from -1/e on) or branch -1 (at most -1, from -1/e to below 0); NaN elsewhere.

    In float64. Accurate to rounding, which at the branch point -1/e means half the digits: there W hardly
    depends on x.
    """
    x = x.double()
    # In p both branches are one smooth function: W = -1 ± p - p² / 3 ± 11/72 p³ - ...
    p = (2 * (math.e * x + 1)).clamp(min=0).sqrt()
    if branch == 0:
        near = -1 + p - p * p / 3 + 11 / 72 * p * p * p
        log_x = x.clamp(min=math.e).log()
        middle = x.clamp(min=0).log1p() * 0.75
        w = torch.where(x < 0.3, near, torch.where(x < 10, middle, log_x - log_x.log()))
        for _ in range(_STEPS):
            pulled = x * (-w).exp()  # of w = x exp(-w): right through zero
            w = _halley(w, w - pulled, 1 + pulled, -pulled)
        return torch.where(x >= -1 / math.e, w, math.nan)
    near = -1 - p - p * p / 3 - 11 / 72 * p * p * p
    log_x = (-x).log()
    w = torch.where(x < -0.25, near, log_x - (-log_x).log())
    for _ in range(_STEPS):
        # Of w + log(-w) = log(-x): exp(-w) would overflow.
        w = _halley(w, w + (-w).log() - log_x, 1 + 1 / w, -1 / (w * w))
    return torch.where((x >= -1 / math.e) & (x < 0), w, math.nan)


def _halley(w: Tensor, value: Tensor, slope: Tensor, curve: Tensor) -> Tensor:
    # At the branch point the slope vanishes with the value.
    safe = torch.where(slope == 0, 1, slope)
    return torch.where(slope == 0, w, w - value / (safe - value * curve / (2 * safe)))
