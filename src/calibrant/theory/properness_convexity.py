"""Is a loss convex, in the probabilities or in the logits: searched for a segment that says no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calibrant._math.checks import check_choice
from calibrant._math.shapes import Float
from calibrant.theory.risk_minimiser_losses import Loss, Risk

__all__ = ["Convexity", "convexity"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Convexity:
    """What a search among segments found."""

    convex: bool
    """False is certain: the segment proves it. True: no segment was found."""
    ends: Float[Tensor, "2 C"] | None
    """Probabilities at the two ends of the segment, or logits."""
    excess: float
    """By how much the loss in the middle exceeds the mean of the ends there; 0 if none was found."""
    num_segments: int


def convexity(
    loss: Loss,
    *,
    space: Literal["probs", "logits"] = "probs",
    num_classes: Sequence[int] = (2, 3),
    num_segments: int = 2000,
    batch_size: int | None = None,
    seed: int = 0,
) -> Convexity:
    """Search for a segment on which a loss of class 0 lies above its chord.

    Segments are drawn at random, long and short ones, also between vertices' neighbourhoods; the loss is
    looked at in the middle.

    Args:
        loss: Takes logits ``(N, C)`` and labels ``(N,)``; see :func:`risk_minimiser`.
        space: In what: the probabilities, or the logits.
        num_classes: Numbers of classes to try.
        num_segments: How many segments of each.
        batch_size: For losses of a whole batch: the labels are then class 0 and, one in four, class 1.
        seed: Seed of the draws.

    Returns:
        Whether every segment passed, and the worst if not.

    Raises:
        InputError: If ``space`` is another word, or as for :func:`risk_minimiser`.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", 2024, proposition 1 (focal loss is convex in the probabilities).

    Example:
        >>> import torch
        >>> def focal(logits, labels):
        ...     log_p = logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
        ...     return -(1 - log_p.exp()) ** 2 * log_p
        >>> convexity(focal).convex, convexity(focal, space="logits").convex
        (True, False)
    """
    check_choice("space", space, ("probs", "logits"))
    worst, ends = 0.0, None
    for number in num_classes:
        posterior = torch.zeros(number, dtype=torch.float64)
        posterior[0] = 1.0 if batch_size is None else 0.75
        posterior[1] = 1 - posterior[0]
        risk = Risk(loss, posterior, batch_size=batch_size)
        first, second = _segments(number, num_segments, seed)
        if space == "probs":
            places = (first, (first + second) / 2, second)
            values = [risk.many(place.log()) for place in places]
        else:
            places = (first.log(), (first.log() + second.log()) / 2, second.log())
            values = [risk.many(place) for place in places]
        mean = (values[0] + values[2]) / 2
        excess = (values[1] - mean) / (1 + mean.abs())
        place = int(excess.argmax())
        if excess[place].item() > max(1e-11, worst):
            worst, ends = excess[place].item(), torch.stack([places[0][place], places[2][place]])
    return Convexity(
        convex=ends is None, ends=ends, excess=worst, num_segments=num_segments * len(num_classes)
    )


def _segments(number: int, count: int, seed: int) -> tuple[Float[Tensor, "G C"], Float[Tensor, "G C"]]:
    """Ends of segments, as probabilities: logits of all sizes; half of the segments short."""
    generator = torch.Generator().manual_seed(seed)

    def normal(scale: Tensor) -> Tensor:
        return scale * torch.randn(count, number, generator=generator, dtype=torch.float64)

    sizes = 0.3 + 5 * torch.rand(count, 1, generator=generator, dtype=torch.float64)
    first, second = normal(sizes), normal(sizes)
    second[::2] = first[::2] + 0.1 * second[::2]
    return first.softmax(1), second.softmax(1)
