"""Focal loss with an exponent that depends on the sample's own probability."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from torch import Tensor

from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Integer
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import Steps, Terms, row_loss
from calibrant.losses._rows import Reduction, as_rows, check_number

__all__ = ["SampleFocalLoss", "sample_focal_loss"]

Closed: TypeAlias = Literal["left", "right"]


@properness("focal with an exponent that jumps")
def sample_focal_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    thresholds: Sequence[float] = (0.2, 1.0),
    gammas: Sequence[float] = (5.0, 3.0),
    closed: Closed = "left",
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Sample-dependent focal loss (FLSD): an exponent for each range of the true class's probability.

    .. math:: \ell = -(1 - p_t)^{\gamma(p_t)} \log p_t

    ``gammas[i]`` holds from ``thresholds[i - 1]`` (0 for the first) to ``thresholds[i]``. With
    ``closed="left"`` a probability that equals a threshold belongs to the range above it, with ``"right"`` to
    the range below. The exponent is taken from the current :math:`p_t` and carries no gradient.

    * FLSD-53 as in the authors' code, the default: 5 for :math:`p_t < 0.2`, else 3.
    * FLSD-53 as in the text of 2020: ``thresholds=(0.19, 1.0), closed="right"``.
    * FLSD-532: ``thresholds=(0.2, 0.5, 1.0), gammas=(5, 3, 2)``.

    Other arguments, result and errors are those of :func:`cross_entropy_loss`.

    Args:
        thresholds: Upper ends of the ranges, ascending; the last one is 1.
        gammas: Exponents of the ranges, not negative.
        closed: At which end the ranges include their threshold.

    Note:
        Not continuous at the thresholds. :func:`optimal_gamma` relates a threshold to an exponent.

    References:
        Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020, section 5; and "The
        Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks", 2020 (threshold 0.19).

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.1, 0.9], [0.8, 0.2]]).log()
        >>> values = sample_focal_loss(logits, torch.tensor([0, 0]), reduction="none")
        >>> [round(value, 5) for value in values.tolist()]  # 0.9 ** 5 * -log 0.1, 0.2 ** 3 * -log 0.8
        [1.35965, 0.00179]
    """
    _check(thresholds=thresholds, gammas=gammas, closed=closed)
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    return row_loss(rows, Terms(Steps(gammas, thresholds[:-1], closed == "right")))


def _check(*, thresholds: Sequence[float], gammas: Sequence[float], closed: str) -> None:
    for gamma in gammas:
        check_number("gammas", gamma)
    if not gammas or len(gammas) != len(thresholds):
        raise InputError(
            "`gammas` and `thresholds` must have the same length, at least 1; "
            f"got {len(gammas)} and {len(thresholds)}."
        )
    ends = [0.0, *thresholds]
    if thresholds[-1] != 1 or any(later <= earlier for earlier, later in pairwise(ends)):
        raise InputError(f"`thresholds` must ascend from above 0 to 1; got {tuple(thresholds)}.")
    check_choice("closed", closed, ("left", "right"))


class SampleFocalLoss(LossModule, function=sample_focal_loss, check=_check):
    """:func:`sample_focal_loss` as a module."""

    thresholds: Sequence[float] = (0.2, 1.0)
    gammas: Sequence[float] = (5.0, 3.0)
    closed: Closed = "left"

    def _start(self) -> None:
        self.thresholds, self.gammas = tuple(self.thresholds), tuple(self.gammas)
