"""Focal calibration loss (FCL): focal loss and a distance between the probabilities and the label."""

from __future__ import annotations

from typing import Literal, TypeAlias

from torch import Tensor

from calibrant._math.checks import check_choice
from calibrant._math.shapes import Float, Integer
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import Terms, row_loss
from calibrant.losses._rows import Reduction, as_rows, check_not_negative

__all__ = ["FocalCalibrationLoss", "focal_calibration_loss"]

Norm: TypeAlias = Literal["l1", "l2"]


@properness('strictly proper for γ = 0 with norm="l2" only')
def focal_calibration_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    gamma: float = 3.0,
    calibration_weight: float = 0.5,
    norm: Norm = "l2",
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Focal calibration loss.

    .. math:: \ell = -(1 - p_t)^\gamma \log p_t + \lambda \sum_k (p_k - 1[k = t])^2

    with :math:`\lambda` = ``calibration_weight``. The distance is summed over the classes. With ``norm="l1"``
    it is :math:`\sum_k |p_k - 1[k = t]| = 2 (1 - p_t)`, the ablation of the reference.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        gamma: Exponent, not negative.
        calibration_weight: Weight of the distance, not negative; 0 is focal loss.
        norm: The distance.
        targets: Distributions over the classes in place of ``labels``: the expectation of the focal term, and
            the distance to the targets.
        weight: Weight of each class, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: See :func:`focal_loss`.

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or an option is out of range.
        TypeError: If ``labels`` are not integers.

    Note:
        Strictly proper for ``gamma=0`` with the squared distance only, not for every positive weight as the
        reference claims. For a binary event of probability 0.8 and ``gamma=2`` the minimum is at 0.627,
        0.674, 0.701 for weights 0, 0.5, 1. The distance ``"l1"`` alone is minimised by certainty.
        Differentiable any number of times. O(N C) time and memory.

    References:
        "Towards Trustworthy Deep Neural Network through Euclidean Distance" (focal calibration loss), 2025,
        eq. (10).

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.8, 0.2]]).log()
        >>> loss = focal_calibration_loss(logits, torch.tensor([0]), gamma=2, calibration_weight=1.0)
        >>> round(loss.item(), 6)  # 0.2 ** 2 * -log 0.8 + 0.08
        0.088926
    """
    _check(gamma=gamma, calibration_weight=calibration_weight, norm=norm)
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    distance = {norm: calibration_weight}
    return row_loss(rows, Terms(gamma, **distance))


def _check(*, gamma: float, calibration_weight: float, norm: str) -> None:
    check_not_negative(gamma=gamma, calibration_weight=calibration_weight)
    check_choice("norm", norm, ("l1", "l2"))


class FocalCalibrationLoss(LossModule, function=focal_calibration_loss, check=_check):
    """:func:`focal_calibration_loss` as a module."""

    gamma: float = 3.0
    calibration_weight: float = 0.5
    norm: Norm = "l2"
