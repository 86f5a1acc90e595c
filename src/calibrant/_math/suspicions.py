"""Numbers that look as if they were something else than the argument says; each is settled by a few rows."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._math.arrays import row_slices

_HEAD = 256  # rows
_SUM_SLACK = 1e-3
_SURE = 0.05
_FEWEST = 10  # numbers, by which logits are taken for probabilities


def seem_probabilities(logits: Tensor, *, multiclass: bool) -> str | None:
    """What to say of logits that look like probabilities, without the remedy."""
    for rows in (slice(_HEAD), slice(None)):  # the first ones mostly settle it
        part = logits[rows]
        if part.numel() < _FEWEST or bool((part < 0).any()) or bool((part > 1).any()):
            return None
    if multiclass:
        if bool(((logits.to(torch.float64).sum(dim=1) - 1).abs() > _SUM_SLACK).any()):
            return None
        return "every row of `logits` sums to one, as probabilities do"
    if not bool((logits < _SURE).any()) or not bool((logits > 1 - _SURE).any()):
        return None  # weak log-odds may well lie there
    return "all `logits` lie in 0..1, as probabilities do"


def are_one_hot(labels: Tensor) -> bool:
    if labels.ndim != 2 or labels.shape[1] < 2 or not len(labels):
        return False
    return all(
        bool(((part == 0) | (part == 1)).all()) and bool((part.sum(dim=1) == 1).all())
        for part in (labels[rows] for rows in row_slices(labels))
    )


def sum_to_one(scores: Tensor, *, logarithms: bool) -> bool:
    """Whether all rows are probabilities of classes, or their logarithms."""
    for rows in row_slices(scores):
        part = scores[rows].to(torch.float64)
        sums = part.logsumexp(dim=1).exp() if logarithms else part.sum(dim=1)
        if not bool(((sums - 1).abs() <= max(_SUM_SLACK, torch.finfo(scores.dtype).eps)).all()):
            return False
    return True
