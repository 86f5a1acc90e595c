"""MDCA: the difference between mean confidence and frequency, class by class, as a penalty."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibrant._math.shapes import Float, Integer
from calibrant.losses._closed_form import Pull, by_closed_form, can_look, scaled
from calibrant.losses._module import BatchLossModule, properness
from calibrant.losses._row_loss import Terms, closed_form, row_loss
from calibrant.losses._rows import Rows, as_rows, check_mean, check_not_negative

__all__ = ["MDCALoss", "mdca_loss"]


@properness("cross-entropy plus a penalty that is zero at the truth: strictly proper")
def mdca_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    penalty: float = 1.0,
    gamma: float = 0.0,
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean"] = "mean",
) -> Float[Tensor, ""]:
    r"""Cross-entropy or focal loss plus the multi-class difference of confidence and accuracy (MDCA).

    .. math:: L = \frac1N \sum_i -(1 - p_{it})^\gamma \log p_{it} + \frac{\beta}{C} \sum_k
              \Big| \frac1N \sum_i p_{ik} - \frac1N \sum_i 1[t_i = k] \Big|

    with :math:`\beta` = ``penalty``. ``gamma=0``, cross-entropy, is the default; the reference also combines
    the penalty with focal loss.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        penalty: Weight of the difference, not negative.
        gamma: Exponent of the first term, not negative.
        targets: Distributions over the classes in place of ``labels``; the frequencies are their means.
        weight: Weight of each class in the first term, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: ``"mean"`` only: the difference is one of the batch.

    Returns:
        Scalar, not negative; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or an option is out of range.
        TypeError: If ``labels`` are not integers.

    Note:
        With kinks where a class's mean confidence equals its frequency. O(N C) time and memory.

    References:
        Hebbalaguppe, Prakash, Madan and Arora, "A Stitch in Time Saves Nine: A Train-Time Regularizing Loss
        for Improved Neural Network Calibration", CVPR 2022.

    Example:
        >>> import torch
        >>> from calibrant.losses import focal_loss
        >>> logits = torch.tensor([[0.8, 0.2], [0.6, 0.4]]).log()
        >>> labels = torch.tensor([0, 1])  # mean confidences (0.7, 0.3), frequencies (0.5, 0.5)
        >>> difference = mdca_loss(logits, labels) - focal_loss(logits, labels, gamma=0)
        >>> round(difference.item(), 4)
        0.2
    """
    check_mean("MDCA", reduction)
    check_not_negative(penalty=penalty, gamma=gamma)
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    unrounded = rows._replace(layout=rows.layout._replace(dtype=rows.logits.dtype))
    if penalty == 0:
        return rows.layout.finish(row_loss(unrounded, Terms(gamma)))

    def plain(logits: Tensor) -> Tensor:
        seen = unrounded._replace(logits=logits)
        return row_loss(seen, Terms(gamma)) + penalty * _difference(seen)

    if rows.soft or not can_look(rows.logits, rows.labels, rows.weight):
        return rows.layout.finish(plain(rows.logits))
    return rows.layout.finish(by_closed_form(rows.logits, partial(_closed_form, rows, penalty, gamma), plain))


def _difference(rows: Rows) -> Float[Tensor, ""]:
    probs = torch.softmax(rows.logits, -1)
    if rows.soft:
        occurrences, count = rows.labels.sum(0), len(probs)
    else:
        counted = (~rows.ignored()).to(probs.dtype)
        probs = probs.masked_fill(rows.ignored().unsqueeze(-1), 0)
        occurrences = probs.new_zeros(probs.shape[1]).scatter_add(0, rows.classes(), counted)
        count = counted.sum()
    return (probs.sum(0) - occurrences).abs().mean() / count


def _closed_form(
    rows: Rows, penalty: float, gamma: float, logits: Float[Tensor, "R C"]
) -> tuple[Tensor, Pull]:
    from calibrant.losses import _compiled  # numba: imported where it is first needed

    loss, pull = closed_form(rows, Terms(gamma))(logits)
    gradient, probs = pull(torch.ones(())), _compiled.softmax(logits).numpy()
    labels, difference = rows.labels.contiguous().numpy(), np.zeros(probs.shape[1])
    extra = _compiled.add_mean_difference(
        probs, labels, rows.ignore_index, float(penalty), gradient.numpy(), difference
    )
    return loss + extra, partial(scaled, gradient)


class MDCALoss(BatchLossModule, function=mdca_loss, check=check_not_negative):
    """:func:`mdca_loss` as a module."""

    penalty: float = 1.0
    gamma: float = 0.0
