"""Focal loss with one exponent for all samples."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.shapes import Float, Integer
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import Terms, row_loss
from calibrant.losses._rows import Reduction, as_rows, check_gamma

__all__ = ["FocalLoss", "focal_loss"]


@properness("proper for γ = 0 only; elicits the inverse focal map, which keeps the order")
def focal_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    gamma: float = 3.0,
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Focal loss.

    .. math:: \ell = -(1 - p_t)^\gamma \log p_t, \qquad p = \mathrm{softmax}(z)

    :math:`1 - p_t` is summed from the other classes, so that ``gamma`` below 1 has finite gradients, and
    ``gamma`` below 2 finite curvature, where :math:`p_t` rounds to one. ``gamma=0`` is cross-entropy, to the
    last bit. Other arguments, result and errors are those of :func:`cross_entropy_loss`.

    Args:
        gamma: Exponent, greater than -1; 0 is cross-entropy. With a negative one, samples that the network is
            sure of count more.

    Note:
        Proper for ``gamma=0`` only: for a binary event of probability 0.8 its minimum is at 0.627
        (``gamma=2``); see :func:`proper_focal_loss`. Convex in :math:`p_t` for ``gamma`` from 0 on. One
        softmax serves forward and backward: one tensor of the size of ``logits`` besides them.

    References:
        Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017.
        Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.8, 0.2]]).log()
        >>> round(focal_loss(logits, torch.tensor([0]), gamma=2).item(), 6)  # 0.2 ** 2 * -log 0.8
        0.008926
    """
    check_gamma(gamma)
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    return row_loss(rows, Terms(gamma))


class FocalLoss(LossModule, function=focal_loss, check=check_gamma):
    """:func:`focal_loss` as a module."""

    gamma: float = 3.0
