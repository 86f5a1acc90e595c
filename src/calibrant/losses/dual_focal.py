"""Dual focal loss, which also counts the runner-up below the true class."""

from __future__ import annotations

import math
from functools import partial

from torch import Tensor

from calibrant._math.shapes import Float, Integer
from calibrant._math.true_class import softplus
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

    :math:`p_r`, 0 if there is none, is the runner-up if the prediction is right, and not the predicted class
    if it is wrong. It carries a gradient.
    Other arguments, result and errors are those of :func:`cross_entropy_loss`.

    Args:
        gamma: Exponent, not negative; 0 is cross-entropy.

    Note:
        Not continuous where a probability reaches :math:`p_t`, and with a kink where two compete for
        :math:`p_r` (equal ones share the gradient).

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
