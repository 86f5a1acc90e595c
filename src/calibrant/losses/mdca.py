"""MDCA: the difference between mean confidence and frequency, class by class, as a penalty."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibrant._math.shapes import Float, Integer
from calibrant.losses._module import BatchLossModule, properness
from calibrant.losses._rows import as_labelled_rows, check_mean, check_not_negative
from calibrant.losses.focal import focal_loss

__all__ = ["MDCALoss", "mdca_loss"]


@properness("cross-entropy plus a penalty that is zero at the truth: strictly proper")
def mdca_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""],
    *,
    penalty: float = 1.0,
    gamma: float = 0.0,
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
        >>> logits = torch.tensor([[0.8, 0.2], [0.6, 0.4]]).log()
        >>> labels = torch.tensor([0, 1])  # mean confidences (0.7, 0.3), frequencies (0.5, 0.5)
        >>> difference = mdca_loss(logits, labels) - focal_loss(logits, labels, gamma=0)
        >>> round(difference.item(), 4)
        0.2
    """
    check_mean("MDCA", reduction)
    check_not_negative(penalty=penalty, gamma=gamma)
    rows = as_labelled_rows(logits, labels, weight, ignore_index, reduction)
    loss = focal_loss(rows.logits, rows.labels, gamma=gamma, weight=weight, ignore_index=ignore_index)
    if penalty == 0:
        return rows.layout.finish(loss)
    counted = (~rows.ignored()).to(rows.logits.dtype)
    probs = torch.softmax(rows.logits, -1).masked_fill(rows.ignored().unsqueeze(-1), 0)
    occurrences = probs.new_zeros(probs.shape[1]).scatter_add(0, rows.classes(), counted)
    difference = (probs.sum(0) - occurrences).abs().mean() / counted.sum()
    return rows.layout.finish(loss + penalty * difference)


class MDCALoss(BatchLossModule, function=mdca_loss, check=check_not_negative):
    """Module of :func:`mdca_loss`."""

    penalty: float = 1.0
    gamma: float = 0.0
