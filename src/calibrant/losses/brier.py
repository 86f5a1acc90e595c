"""Brier loss."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.shapes import Float, Integer
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import Terms, row_loss
from calibrant.losses._rows import Reduction, as_rows

__all__ = ["BrierLoss", "brier_loss"]


@properness("strictly proper (a squared distance)")
def brier_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Brier loss, summed over the classes.

    .. math:: \ell = \sum_k (p_k - 1[k = t])^2, \qquad p = \mathrm{softmax}(z)

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        targets: Distributions over the classes in place of ``labels``, of the shape of ``logits``; the loss
            is then :math:`\sum_k (p_k - y_k)^2`.
        weight: Weight of each class, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: See :func:`focal_loss`.

    Returns:
        Scalar in ``[0, 2]``, or the shape of ``labels`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree.
        TypeError: If ``labels`` are not integers.

    Note:
        Strictly proper; not convex in the logits. Differentiable any number of times. O(N C) time and memory.

    References:
        Brier, "Verification of Forecasts Expressed in Terms of Probability", Monthly Weather Review 78, 1950.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.8, 0.2]]).log()
        >>> round(brier_loss(logits, torch.tensor([0])).item(), 4)  # 0.2 ** 2 + 0.2 ** 2
        0.08
    """
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    return row_loss(rows, Terms(None, l2=1.0))


class BrierLoss(LossModule, function=brier_loss):
    """:func:`brier_loss` as a module."""
