"""Margin-based label smoothing: cross-entropy and a price on logits too far below the largest."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from calibrant._math.shapes import Float, Integer
from calibrant._math.simplex import top_class
from calibrant.losses._closed_form import BLOCK, Pull, by_closed_form, can_look, of_row_numbers, times_rows
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import FEW
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
        reduction: As in :func:`focal_loss`.

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
    plain = partial(_plain, rows, margin, penalty)
    if rows.logits.numel() <= FEW or rows.soft or not can_look(rows.logits, rows.labels, rows.weight):
        return rows.layout.finish(plain(rows.logits))
    closed = partial(_closed_form, rows, margin, penalty)
    return rows.layout.finish(by_closed_form(rows.logits, closed, plain))


def _plain(rows: Rows, margin: float, penalty: float, logits: Float[Tensor, "R C"]) -> Tensor:
    rows = rows._replace(logits=logits)
    gaps = rows.logits.amax(-1, keepdim=True) - rows.logits
    allowed = allowed_classes(rows.logits)
    price = torch.relu(gaps - margin).masked_fill(~allowed, 0).sum(-1) / allowed.sum(-1)  # (R,)
    if rows.soft:
        price = rows.weighted_targets().sum(-1) * price
    return rows.reduce(rows.cross_entropies() + penalty * price)


class _OutOfTheOrdinaryError(RuntimeError):
    """Ties for the largest logit, which share the gradient, or a masked class: the plain form takes over."""


def _closed_form(
    rows: Rows, margin: float, penalty: float, logits: Float[Tensor, "R C"]
) -> tuple[Tensor, Pull]:
    """The gradient of a row is that of cross-entropy, with a part for each class beyond the margin."""
    logits, place, top = logits.detach(), rows.classes().unsqueeze(1), top_class(logits).unsqueeze(1)
    largest, share = logits.gather(1, top), penalty / logits.shape[1]
    ties = np.count_nonzero(logits.numpy() == largest.numpy()) > len(logits)
    if ties or not bool(logits.amin(1).isfinite().all()):
        raise _OutOfTheOrdinaryError
    gradient, price, beyond = torch.softmax(logits, 1), torch.empty_like(largest), torch.empty_like(largest)
    values = largest - logits.gather(1, place) - gradient.gather(1, top).log()
    size = max(1, BLOCK // logits.shape[1])
    parts = (each.split(size) for each in (logits, gradient, largest - margin, price, beyond))
    for block, slopes, limit, *sums in zip(*parts, strict=True):
        over = torch.sub(limit, block).clamp_(min=0)
        torch.sum(over, 1, keepdim=True, out=sums[0])
        torch.sum(over.sign_(), 1, keepdim=True, out=sums[1])
        slopes.sub_(over, alpha=share)
    gradient.scatter_add_(1, place, -torch.ones_like(beyond)).scatter_add_(1, top, share * beyond)
    loss, by_values = of_row_numbers(((values + share * price).squeeze(1),), rows.reduce)
    return loss, lambda grad: times_rows(gradient, by_values(grad)[0].unsqueeze(1))


class MarginLabelSmoothingLoss(LossModule, function=margin_label_smoothing_loss, check=check_not_negative):
    """:func:`margin_label_smoothing_loss` as a module."""

    margin: float = 10.0
    penalty: float = 0.1
