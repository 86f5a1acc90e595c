"""Samples as rows of numbers for keeping and gathering, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from calibrant._math.checks import Checked
from calibrant._math.shapes import Bool, Float
from calibrant.metrics._common import columns


def as_event(
    probs: Float[Tensor, " N"], outcomes: Bool[Tensor, " N"], weights: Float[Tensor, " N"] | None
) -> Checked | None:
    """An event from checked numbers; ``None`` if no sample counts."""
    if not len(probs) or (weights is not None and not bool(weights.any())):
        return None
    return Checked(probs, outcomes.to(torch.int64), weights, "binary", 2)


def row_width(num_columns: int, *, by_class: bool) -> int:
    """Numbers in a row: of classes the probabilities, of events number and probability; and two more."""
    return (num_columns if by_class else 2) + 2


def pack(problems: Sequence[Checked | None], num_columns: int, *, by_class: bool) -> Float[Tensor, "n width"]:
    """Rows of one table of classes, or of events; the last two numbers are label (or outcome) and weight."""
    tables: list[Tensor] = []
    for k, each in enumerate(problems):
        if each is not None:
            weights = _weights(each)
            first = [] if by_class else [torch.full_like(weights, k)]
            columns_of = [*first, each.scores.to(weights), each.target.to(weights), weights]
            tables.append(torch.column_stack(columns_of))
    if len(tables) == 1:
        return tables[0]
    empty = torch.empty((0, row_width(num_columns, by_class=by_class)), dtype=torch.float64)
    return torch.cat(tables) if tables else empty


def unpack(rows: Float[Tensor, "n width"], num_columns: int, *, by_class: bool) -> list[Checked | None]:
    """Each class, or each event in packed order, as an event."""
    if by_class:
        probs, labels, weights = rows[:, :-2], rows[:, -2].to(torch.int64), rows[:, -1].contiguous()
        known = Checked(probs, labels, _none_if_ones(weights), "multiclass", num_columns)
        return split_classes(known if bool(weights.any()) else None, num_columns)
    events: list[Checked | None] = []
    for k in range(num_columns):
        _, probs, outcomes, weights = rows[rows[:, 0] == k].T
        events.append(as_event(probs.contiguous(), outcomes == 1, _none_if_ones(weights.contiguous())))
    return events


def split_classes(classes: Checked | None, num_columns: int) -> list[Checked | None]:
    """Each class against all others."""
    if classes is None:
        return [None] * num_columns
    return [as_event(probs, outcomes, classes.weights) for probs, outcomes in columns(classes)]


def _weights(problem: Checked) -> Float[Tensor, " N"]:
    if problem.weights is not None:
        return problem.weights
    return torch.ones(problem.num_samples, dtype=torch.float64, device=problem.scores.device)


def _none_if_ones(weights: Float[Tensor, " N"]) -> Float[Tensor, " N"] | None:
    """Drop weights of one, as sorting without weights is faster."""
    return None if bool((weights == 1).all()) else weights
