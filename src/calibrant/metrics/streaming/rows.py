"""Samples as rows of numbers, so that they can be kept and gathered, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from calibrant._math.checks import Checked
from calibrant._math.shapes import Bool, Float
from calibrant.metrics._common import columns

EVENT_WIDTH = 4


def as_event(
    probs: Float[Tensor, " N"], outcomes: Bool[Tensor, " N"], weights: Float[Tensor, " N"] | None
) -> Checked | None:
    """An event whose numbers are known to be sound; ``None`` where no sample counts."""
    if not len(probs) or (weights is not None and not bool(weights.any())):
        return None
    return Checked(probs, outcomes.to(torch.int64), weights, "binary", 2)


def pack(problems: Sequence[Checked | None], num_columns: int, *, by_class: bool) -> Tensor:
    """Rows of a table of classes, or of events."""
    return pack_classes(problems[0], num_columns) if by_class else pack_events(problems)


def unpack(rows: Tensor, num_columns: int, *, by_class: bool) -> list[Checked | None]:
    """Each class, or each event, as an event."""
    return split_classes(unpack_classes(rows), num_columns) if by_class else unpack_events(rows, num_columns)


def row_width(num_columns: int, *, by_class: bool) -> int:
    """Numbers in a row."""
    return num_columns + 2 if by_class else EVENT_WIDTH


def split_classes(classes: Checked | None, num_columns: int) -> list[Checked | None]:
    """Each class against all others."""
    if classes is None:
        return [None] * num_columns
    return [as_event(probs, outcomes, classes.weights) for probs, outcomes in columns(classes)]


def pack_events(events: Sequence[Checked | None]) -> Float[Tensor, "n 4"]:
    """Number of the event, probability, outcome, weight."""
    tables: list[Tensor] = []
    for k, each in enumerate(events):
        if each is not None:
            weights = _weights(each)
            number = torch.full_like(weights, k)
            tables.append(torch.stack([number, each.scores.to(weights), each.target.to(weights), weights], 1))
    return torch.cat(tables) if tables else torch.empty((0, EVENT_WIDTH), dtype=torch.float64)


def unpack_events(rows: Float[Tensor, "n 4"], num_events: int) -> list[Checked | None]:
    """Each event, in the order in which it was packed."""
    events: list[Checked | None] = []
    for k in range(num_events):
        _, probs, outcomes, weights = rows[rows[:, 0] == k].T
        events.append(as_event(probs.contiguous(), outcomes == 1, _none_if_ones(weights.contiguous())))
    return events


def pack_classes(classes: Checked | None, num_classes: int) -> Float[Tensor, "n {num_classes}+2"]:
    """Probabilities, label, weight."""
    if classes is None:
        return torch.empty((0, num_classes + 2), dtype=torch.float64)
    weights = _weights(classes)
    return torch.cat([classes.scores.to(weights), classes.target[:, None].to(weights), weights[:, None]], 1)


def unpack_classes(rows: Float[Tensor, "n width"]) -> Checked | None:
    """The table of probabilities with its labels."""
    probs, labels, weights = rows[:, :-2], rows[:, -2].to(torch.int64), rows[:, -1].contiguous()
    if not bool(weights.any()):
        return None
    return Checked(probs, labels, _none_if_ones(weights), "multiclass", probs.shape[1])


def _weights(problem: Checked) -> Float[Tensor, " N"]:
    if problem.weights is not None:
        return problem.weights
    return torch.ones(problem.num_samples, dtype=torch.float64, device=problem.scores.device)


def _none_if_ones(weights: Float[Tensor, " N"]) -> Float[Tensor, " N"] | None:
    """Sorting without weights is faster."""
    return None if bool((weights == 1).all()) else weights
