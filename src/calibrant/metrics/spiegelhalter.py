"""Spiegelhalter's z: is the Brier score what these probabilities lead one to expect?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_probs
from calibrant._math.shapes import Float
from calibrant.metrics._events import checked_events

__all__ = ["SpiegelhalterTest", "spiegelhalter_test"]


@dataclass(frozen=True)
class SpiegelhalterTest:
    """A standard normal statistic and its two-sided p-value."""

    statistic: Float[Tensor, ""] | Float[Tensor, " C"]
    p_value: Float[Tensor, ""] | Float[Tensor, " C"]


def spiegelhalter_test(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    classwise: bool = False,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> SpiegelhalterTest:
    r"""Brier score less its expectation under the probabilities stated, in standard deviations.

    .. math:: z = \frac{\sum_i w_i (y_i - p_i)(1 - 2 p_i)}
                       {\sqrt{\sum_i w_i^2 (1 - 2 p_i)^2 p_i (1 - p_i)}}

    Standard normal if the probabilities are true. Above 0 the score is worse than they promise
    (over-confident), below 0 better. Classes ``(N, C)``: the event is that the top label is right; with
    ``classwise=True`` each class against all others. An event ``(N,)``: itself. Several labels per sample:
    every column.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        classwise: Whether every class is tested, not only the top label.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``statistic`` and two-sided ``p_value``: float64 scalars, or of shape ``(C,)`` for several labels or
        ``classwise``. Where all probabilities are 0, 1/2 or 1 there is nothing to vary: 0 with p-value 1, or
        infinite with p-value 0 where a certainty was wrong.

    Raises:
        InputError: If shapes disagree, or a value is not finite or out of range.

    Note:
        One direction only: blind to probabilities that are too high as often as too low where 1 - 2 p has
        the same sign, and to those near 1/2. O(N) time. Not differentiable.

    References:
        Spiegelhalter, "Probabilistic Prediction in Patient Management and Clinical Trials", Statistics in
        Medicine 5, 1986.

    Example:
        >>> import torch
        >>> found = spiegelhalter_test(torch.full((16,), 0.8), torch.tensor([0, 1] * 8))
        >>> round(found.statistic.item(), 6), round(found.p_value.item(), 4)
        (3.0, 0.0027)
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    each: list[tuple[float, float]] = []
    for scores, outcomes, mass in checked_events(checked, classwise=classwise):
        slopes = (1 - 2 * scores) if mass is None else mass * (1 - 2 * scores)
        excess = float(slopes @ (outcomes - scores))
        spread = math.sqrt(float(slopes**2 @ (scores * (1 - scores))))
        certain = math.copysign(math.inf, excess) if excess else 0.0
        z = excess / spread if spread > 0 else certain
        each.append((z, math.erfc(abs(z) / math.sqrt(2))))
    values = torch.tensor(each, dtype=torch.float64, device=checked.scores.device).t()
    one = not classwise and checked.task != "multilabel"
    return SpiegelhalterTest(*(value[0] if one else value for value in values))
