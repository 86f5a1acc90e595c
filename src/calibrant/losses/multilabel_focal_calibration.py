"""Focal calibration loss for multilabel classification."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.shapes import Float, Shaped
from calibrant.losses._entries import EntryTerms, as_entries, entry_loss
from calibrant.losses._module import MultilabelLossModule, properness
from calibrant.losses._rows import Reduction, check_not_negative

__all__ = ["MultilabelFocalCalibrationLoss", "multilabel_focal_calibration_loss"]


@properness("label by label as focal-calibration")
def multilabel_focal_calibration_loss(
    logits: Float[Tensor, "*N"],
    labels: Shaped[Tensor, "*N"],
    *,
    gamma: float = 2.0,
    calibration_weight: float = 0.5,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, "*N"]:
    r"""Focal calibration loss of every label, through the sigmoid.

    .. math:: \ell = -y (1 - s)^\gamma \log s - (1 - y) s^\gamma \log(1 - s) + \lambda (s - y)^2,
              \qquad s = \sigma(z)

    with :math:`\lambda` = ``calibration_weight``.

    Args:
        logits: Log-odds of each label, any shape; the second dimension is that of the labels: ``(N, C)``,
            ``(N, C, d1, ...)``. ``(N,)`` is a single label.
        labels: 0 or 1, of the shape of ``logits``; integers, booleans or floating-point (a fraction is taken
            as the probability of 1).
        gamma: Exponent, not negative.
        calibration_weight: Weight of the squared distance, not negative; 0 is focal loss.
        weight: Weight of each label, shape ``(C,)``.
        ignore_index: Value of entries that do not count.
        reduction: See :func:`multilabel_focal_loss`.

    Returns:
        Scalar, not negative, or the shape of ``logits`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or an option is out of range; values of tensors are not read.
        TypeError: If ``logits`` are not floating-point.

    Note:
        Strictly proper for ``gamma=0`` only, as :func:`focal_calibration_loss`. Differentiable any number of
        times. O(N C) time and memory.

    References:
        "Towards Trustworthy Deep Neural Network through Euclidean Distance" (focal calibration loss for
        CheXNet), 2025; its formula for several labels is not printed, this is the literal one.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.8, 0.4]]).logit()
        >>> values = multilabel_focal_calibration_loss(logits, torch.tensor([[1, 0]]), reduction="none")
        >>> [round(value, 5) for value in values[0].tolist()]  # focal's + 0.02 and + 0.08
        [0.02893, 0.16173]
    """
    check_not_negative(gamma=gamma, calibration_weight=calibration_weight)
    entries = as_entries(logits, labels, weight=weight, ignore_index=ignore_index, reduction=reduction)
    return entry_loss(entries, EntryTerms(gamma, distance=calibration_weight))


class MultilabelFocalCalibrationLoss(
    MultilabelLossModule, function=multilabel_focal_calibration_loss, check=check_not_negative
):
    """:func:`multilabel_focal_calibration_loss` as a module."""

    gamma: float = 2.0
    calibration_weight: float = 0.5
