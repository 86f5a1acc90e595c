"""Margin-based label smoothing: cross-entropy and a price on logits too far below the largest."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from calibrant._math.shapes import Float, Integer
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import compiled_loss
from calibrant.losses._rows import Reduction, Rows, allowed_classes, as_rows, check_not_negative

__all__ = ["MarginLabelSmoothingLoss", "margin_label_smoothing_loss"]


@properness("proper where no probability is below exp(−margin) times the largest")
def margin_label_smoothing_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    margin: float = 10.0,
    penalty: float = 0.1,
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Margin-based label smoothing (MbLS).

    .. math:: \ell = -\log p_t + \frac{\alpha}{C} \sum_k \max\big(0, \max_j z_j - z_k - m\big)

    with m = ``margin`` and :math:`\alpha` = ``penalty``. The price is a mean over the classes, as in the
    authors' code; classes masked by a logit of -inf have none and are not counted.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        margin: Distance from the largest logit that is free, not negative.
        penalty: Weight of the price, not negative; 0 is cross-entropy.
        targets: Distributions over the classes in place of ``labels``, for the cross-entropy.
        weight: Weight of each class, shape ``(C,)``; it applies to both terms.
        ignore_index: Label of samples that do not count.
        reduction: See :func:`focal_loss`.

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or an option is out of range.
        TypeError: If ``labels`` are not integers.

    Note:
        Proper where no probability is below :math:`e^{-m}` times the largest. With kinks where a gap reaches
        the margin and where the largest logit is tied (ties share the gradient); the second derivative is
        that of cross-entropy. O(N C) time and memory.

    References:
        Liu et al., "The Devil Is in the Margin: Margin-Based Label Smoothing for Network Calibration", CVPR
        2022.

    Example:
        >>> import torch
        >>> from calibrant.losses import cross_entropy_loss
        >>> logits = torch.tensor([[4.0, 0.0]])
        >>> extra = margin_label_smoothing_loss(logits, torch.tensor([0]), margin=3.0) - cross_entropy_loss(
        ...     logits, torch.tensor([0])
        ... )
        >>> round(extra.item(), 4)  # 0.1 * (4 - 3) / 2
        0.05
    """
    check_not_negative(margin=margin, penalty=penalty)
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    if penalty == 0:
        return rows.layout.finish(rows.cross_entropy())
    return compiled_loss(rows, partial(_plain, margin, penalty), margin=margin, penalty=penalty)


def _plain(margin: float, penalty: float, rows: Rows) -> Tensor:
    gaps = rows.logits.amax(-1, keepdim=True) - rows.logits
    allowed = allowed_classes(rows.logits)
    price = torch.relu(gaps - margin).masked_fill(~allowed, 0).sum(-1) / allowed.sum(-1)  # (R,)
    if rows.soft:
        price = rows.weighted_targets().sum(-1) * price
    return rows.reduce(rows.cross_entropies() + penalty * price)


class MarginLabelSmoothingLoss(LossModule, function=margin_label_smoothing_loss, check=check_not_negative):
    """:func:`margin_label_smoothing_loss` as a module."""

    margin: float = 10.0
    penalty: float = 0.1
