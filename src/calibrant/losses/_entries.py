"""Multilabel losses: every entry of the logits is a binary event."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Shaped
from calibrant._math.true_class import focal_value
from calibrant.losses._rows import Layout, Reduction, check_is_tensor, check_scores, dtypes_of


class Entries(NamedTuple):
    """Log-odds in the type that is computed in, with their labels as they came."""

    logits: Float[Tensor, "*N"]
    labels: Shaped[Tensor, "*N"]
    ignore_index: int
    weight: Float[Tensor, "*#N"] | None
    layout: Layout

    @property
    def certain(self) -> bool:
        """Whether the labels are 0 or 1 by their type."""
        return not self.labels.is_floating_point()

    def log_odds(self) -> Float[Tensor, "*N"]:
        """Log-odds of what happened."""
        return torch.where(self.labels == 1, self.logits, -self.logits)

    def focal(self, gamma: float) -> Float[Tensor, "*N"]:
        """Focal loss of each entry."""
        if self.certain:
            return focal_value(self.log_odds(), gamma)
        outcomes = self.labels.to(self.logits.dtype)
        return outcomes * focal_value(self.logits, gamma) + (1 - outcomes) * focal_value(-self.logits, gamma)

    def share(self, alpha: float) -> Float[Tensor, "*N"]:
        """``alpha`` of what happened, the rest of what did not."""
        outcomes = self.labels.to(self.logits.dtype)
        return alpha * outcomes + (1 - alpha) * (1 - outcomes)

    def squared_distance(self) -> Float[Tensor, "*N"]:
        """Squared difference of probability and outcome."""
        if self.certain:
            return torch.sigmoid(-self.log_odds()).square()
        return (torch.sigmoid(self.logits) - self.labels.to(self.logits.dtype)).square()

    def reduce(self, values: Float[Tensor, "*N"]) -> Tensor:
        """The result, from a value per entry that is not yet weighted."""
        ignored = self.labels == self.ignore_index
        values = values.masked_fill(ignored, 0)
        if self.weight is not None:
            values = values * self.weight
        if self.layout.reduction == "none":
            return self.layout.finish(values)
        total = values.sum()
        if self.layout.reduction == "mean":
            counted = ~ignored if self.weight is None else self.weight.masked_fill(ignored, 0)
            total = total / counted.sum()
        return self.layout.finish(total)


def as_entries(
    logits: Tensor, labels: Tensor, *, weight: Tensor | None, ignore_index: int, reduction: Reduction
) -> Entries:
    """Check shapes and types, never values."""
    check_scores(logits, reduction)
    check_is_tensor(labels, "labels")
    if labels.shape != logits.shape:
        raise InputError(
            f"`labels` must have the shape of `logits`, {tuple(logits.shape)}, one 0 or 1 per label; "
            f"got {tuple(labels.shape)}."
        )
    if weight is not None:
        check_is_tensor(weight, "weight")
        if logits.ndim < 2 or weight.shape != logits.shape[1:2]:
            shape = tuple(logits.shape[1:2])
            raise InputError(
                f"`weight` must have one entry per label, shape {shape}; got {tuple(weight.shape)}."
            )
        weight = weight.reshape(-1, *[1] * (logits.ndim - 2))
    computed, answered = dtypes_of(logits)
    return Entries(
        logits.to(computed),
        labels,
        ignore_index,
        weight if weight is None else weight.to(computed),
        Layout(reduction, logits.shape, answered),
    )
