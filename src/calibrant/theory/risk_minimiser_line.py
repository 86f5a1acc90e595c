"""The least risk of two classes: on a line that is looked at everywhere, be the loss smooth or not."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.shapes import Float
from calibrant.theory.risk_minimiser_losses import Risk

_REACH = 30.0  # log-odds
_POINTS = 601
_ZOOMS = 24
_VALLEYS = 3


class Valley(NamedTuple):
    """Log-odds between which the risk is least, and where in between it was found so."""

    low: float
    best: float
    high: float
    risk: float


def row_of(log_odds: float) -> Float[Tensor, " 2"]:
    """A row of logits that gives class 1 these log-odds."""
    return torch.tensor([-log_odds / 2, log_odds / 2], dtype=torch.float64)


def valleys(risk: Risk) -> list[Valley]:
    """The lowest places of the risk on a grid of log-odds, each with its neighbours."""
    grid = torch.linspace(-_REACH, _REACH, _POINTS, dtype=torch.float64)
    values = risk.many(torch.stack([-grid / 2, grid / 2], dim=1))
    padded = torch.nn.functional.pad(values, (1, 1), value=torch.inf)
    lowest = ((values <= padded[:-2]) & (values <= padded[2:])).nonzero()[:, 0]
    order = lowest[values[lowest].argsort(stable=True)][:_VALLEYS].tolist()
    last = _POINTS - 1
    return [
        Valley(grid[max(i - 1, 0)].item(), grid[i].item(), grid[min(i + 1, last)].item(), values[i].item())
        for i in order
    ]


def zoom(risk: Risk, valley: Valley) -> Valley:
    """Narrow a valley down to rounding, by values alone."""
    low, best, high, value = valley
    for _ in range(_ZOOMS):
        grid = torch.linspace(low, high, 33, dtype=torch.float64)
        values = risk.many(torch.stack([-grid / 2, grid / 2], dim=1))
        place = int(values.argmin())
        if values[place].item() <= value:
            best, value = grid[place].item(), values[place].item()
        step = (high - low) / 32
        low, high = best - step, best + step
    return Valley(low, best, high, value)
