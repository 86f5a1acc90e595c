"""Dual focal loss, which also counts the runner-up below the true class."""

from __future__ import annotations

import math
from functools import partial

from torch import Tensor

from calibrant._math.shapes import Float, Integer
from calibrant._math.simplex import softplus
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import compiled_loss
from calibrant.losses._rows import Reduction, Rows, as_rows, check_not_negative

__all__ = ["DualFocalLoss", "dual_focal_loss"]


@properness("the runner-up enters the power: below the truth's probability only")
def dual_focal_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""],
    *,
    gamma: float = 5.0,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Dual focal loss.

    .. math:: \ell = -(1 - p_t + p_r)^\gamma \log p_t, \qquad p_r = \max \{ p_k : p_k < p_t \}

    :math:`p_r` is the largest probability strictly below the true class's, 0 if there is none; so it is the
    runner-up if the prediction is right, and not the predicted class if it is wrong. It carries a
    gradient.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        gamma: Exponent, not negative; 0 is cross-entropy.
        weight: Weight of each class, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: See :func:`focal_loss`.

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or ``gamma`` is negative.
        TypeError: If ``labels`` are not integers.

    Note:
        Not continuous where a probability reaches :math:`p_t`, and with a kink where two compete for
        :math:`p_r` (equal ones share the gradient); elsewhere differentiable any number of times. O(N C) time
        and memory.

    References:
        Tao, Dong and Xu, "Dual Focal Loss for Calibration", ICML 2023.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
        >>> round(dual_focal_loss(logits, torch.tensor([0]), gamma=2).item(), 4)  # 0.8 ** 2 * -log 0.5
        0.4436
    """
    check_not_negative(gamma=gamma)
    rows = as_rows(logits, labels, None, weight, ignore_index, reduction)
    if gamma == 0:
        return rows.layout.finish(rows.cross_entropy())
    return compiled_loss(rows, partial(_plain, gamma), gammas=(gamma,), dual=True)


def _plain(gamma: float, rows: Rows) -> Tensor:
    true = rows.true_class()
    # Compared as logits: rounding cannot put the true class below itself.
    runner_up = true.others.masked_fill(true.others >= true.logit.unsqueeze(-1), -math.inf).amax(-1)
    # 1 - p_t + p_r = (1 - p_t) (1 + p_r's share of the others): no difference of probabilities.
    share = (runner_up - true.log_sum).exp()
    values = (gamma * (share.log1p() - softplus(true.log_odds))).exp() * softplus(-true.log_odds)
    return rows.reduce(values)


class DualFocalLoss(LossModule, function=dual_focal_loss, check=check_not_negative):
    """:func:`dual_focal_loss` as a module."""

    gamma: float = 5.0
