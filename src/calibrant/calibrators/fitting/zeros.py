"""Probabilities of exactly zero: what counts in their place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from calibrant._math.checks import Task

LOG_FLOOR = math.log(1e-12)
LOG_ODDS_LIMIT = math.log1p(-1e-12) - LOG_FLOOR


def floor_zero_probabilities(scores: Tensor, kind: Task) -> tuple[Tensor, int]:
    """Scores in which a probability of exactly zero is 1e-12 or the row's next, and how many there were."""
    low, high = torch.aminmax(scores.detach())
    if math.isfinite(low.item()) and math.isfinite(high.item()):
        return scores, 0
    return floored(scores, kind), int(torch.isinf(scores).sum())


def floored(scores: Tensor, kind: Task) -> Tensor:
    """The same scores without a look at their values, for a graph that is traced."""
    zero = torch.isinf(scores)
    if kind != "multiclass":
        return torch.where(zero, scores.detach().clamp(-LOG_ODDS_LIMIT, LOG_ODDS_LIMIT), scores)
    fixed = scores.detach()
    smallest = torch.where(zero, math.inf, fixed).amin(dim=1, keepdim=True)
    floor = (fixed.logsumexp(dim=1, keepdim=True) + LOG_FLOOR).minimum(smallest)
    return torch.where(zero, floor, scores)
