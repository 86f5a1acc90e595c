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
    last bit.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        gamma: Exponent, greater than -1; 0 is cross-entropy. With a negative one, samples that the network is
            sure of count more.
        targets: Distributions over the classes in place of ``labels``, of the shape of ``logits``; the loss
            is then its expectation, :math:`-\sum_k y_k (1 - p_k)^\gamma \log p_k`.
        weight: Weight of each class, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: ``"mean"`` divides by the weights of the samples that count (by their number for
            ``targets``), ``"sum"`` adds up, ``"none"`` gives one value per sample, 0 where it does not count.
            The mean of no samples is NaN, as of torch's cross-entropy.

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; the type of ``logits`` (float16 and
        bfloat16 are computed in float32), float32 under autocast.

    Raises:
        InputError: If shapes disagree or ``gamma`` is not greater than -1; tensors are not read.
        TypeError: If ``labels`` are not integers.
        IndexError: If a label is that of no class. Torch finds it; on a CPU the message names the classes.

    Note:
        Proper for ``gamma=0`` only: for a binary event of probability 0.8 its minimum is at 0.627
        (``gamma=2``); see :func:`proper_focal_loss`. Convex in :math:`p_t` for ``gamma`` from 0 on.
        Differentiable any number of times. One softmax serves forward and backward: O(N C) time, one tensor
        of the size of ``logits`` besides them.

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
