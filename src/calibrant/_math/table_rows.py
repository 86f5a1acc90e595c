"""All that is asked of the rows of a table of probabilities, while they are in cache."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.shapes import Bool, Float, Int

_NARROW = 64  # columns up to which a transposed copy is read faster than the rows themselves
NEAR_EDGE = 1e-13  # of bins of equal width, as a share of the unit interval
MAY_BE_SHARED = 0.51  # two classes cannot both exceed a half, but for what a row's sum may miss


class RowFacts(NamedTuple):
    """The smallest value of some rows; for each row its largest value, its sum, and whether it is right."""

    low: Float[Tensor, ""]
    highest: Float[Tensor, " n"]
    sums: Float[Tensor, " n"]
    correct: Bool[Tensor, " n"] | None  # whether the first of the most probable classes is the true one


def read_rows(probs: Float[Tensor, "n C"], labels: Int[Tensor, " n"] | None) -> RowFacts:
    """Read the rows once; NaN is found in ``low``."""
    wide = torch.promote_types(probs.dtype, torch.float32)
    if probs.shape[1] > _NARROW:
        highest = probs.amax(dim=1)
        correct = None if labels is None else _first_of_highest(probs, labels, highest)
        return RowFacts(probs.amin(), highest, probs.sum(dim=1, dtype=wide), correct)
    columns = probs.t().clone(memory_format=torch.contiguous_format)
    low, highest, sums = columns.amin(), columns.amax(dim=0), columns.sum(dim=0, dtype=wide)
    if labels is None:
        return RowFacts(low, highest, sums, None)
    stated = columns.gather(0, labels[None])[0]
    others = columns.scatter_(0, labels[None], -1.0).amax(dim=0)
    correct = stated > others
    _settle_ties(probs, labels, correct, stated == others)
    return RowFacts(low, highest, sums, correct)


def _first_of_highest(probs: Tensor, labels: Tensor, highest: Tensor) -> Tensor:
    correct = probs.gather(1, labels[:, None])[:, 0] == highest
    _settle_ties(probs, labels, correct, correct & (highest < MAY_BE_SHARED))
    return correct


def _settle_ties(probs: Tensor, labels: Tensor, correct: Tensor, doubtful: Tensor) -> None:
    """Judge doubtful rows, where another class may be as probable, by the first of the highest."""
    rows = doubtful.nonzero()[:, 0]
    if len(rows):
        correct[rows] = probs[rows].max(dim=1).indices == labels[rows]
