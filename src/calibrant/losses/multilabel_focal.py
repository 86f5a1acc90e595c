"""Focal loss for multilabel classification."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.shapes import Float, Shaped
from calibrant.losses._entries import EntryTerms, as_entries, entry_loss
from calibrant.losses._module import MultilabelLossModule, properness
from calibrant.losses._rows import Reduction, check_gamma, check_number

__all__ = ["MultilabelFocalLoss", "multilabel_focal_loss"]


@properness("label by label as focal")
def multilabel_focal_loss(
    logits: Float[Tensor, "*N"],
    labels: Shaped[Tensor, "*N"],
    *,
    gamma: float = 2.0,
    alpha: float | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, "*N"]:
    r"""Focal loss of every label, through the sigmoid.

    .. math:: \ell = -y (1 - s)^\gamma \log s - (1 - y) s^\gamma \log(1 - s), \qquad s = \sigma(z)

    Args:
        logits: Log-odds of each label, any shape; the second dimension is that of the labels: ``(N, C)``,
            ``(N, C, d1, ...)``. ``(N,)`` is a single label.
        labels: 0 or 1, of the shape of ``logits``; integers, booleans or floating-point (a fraction is taken
            as the probability of 1).
        gamma: Exponent, greater than -1; 0 is binary cross-entropy.
        alpha: Weight of labels that are 1, in ``[0, 1]``; those that are 0 have ``1 - alpha``. Without it,
            both count fully. The mean divides by the number of entries, as torchvision's.
        weight: Weight of each label, shape ``(C,)``.
        ignore_index: Value of entries that do not count.
        reduction: ``"mean"`` divides by the weights of the entries that count, ``"sum"`` adds up, ``"none"``
            gives one value per entry, 0 where it does not count.

    Returns:
        Scalar, not negative, or the shape of ``logits`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or ``gamma`` is out of range; values of tensors are not read.
        TypeError: If ``logits`` are not floating-point.

    Note:
        Proper for ``gamma=0`` only. Differentiable any number of times; finite gradients for ``gamma`` below
        1 where the sigmoid rounds to 0 or 1. O(N C) time and memory.

    References:
        Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.8, 0.4]]).logit()
        >>> values = multilabel_focal_loss(logits, torch.tensor([[1, 0]]), reduction="none")
        >>> [round(value, 5) for value in values[0].tolist()]  # 0.2 ** 2 * -log 0.8, 0.4 ** 2 * -log 0.6
        [0.00893, 0.08173]
    """
    _check(gamma=gamma, alpha=alpha)
    entries = as_entries(logits, labels, weight=weight, ignore_index=ignore_index, reduction=reduction)
    return entry_loss(entries, EntryTerms(gamma, alpha))


def _check(*, gamma: float, alpha: float | None) -> None:
    check_gamma(gamma)
    if alpha is not None:
        check_number("alpha", alpha, at_most=1)


class MultilabelFocalLoss(MultilabelLossModule, function=multilabel_focal_loss, check=_check):
    """:func:`multilabel_focal_loss` as a module."""

    gamma: float = 2.0
    alpha: float | None = None
