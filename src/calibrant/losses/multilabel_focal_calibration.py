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

    .. math:: \ell = \mathrm{FL}_\gamma(z, y) + \lambda (\sigma(z) - y)^2

    with the loss FL of :func:`multilabel_focal_loss` and :math:`\lambda` = ``calibration_weight``.
    Other arguments, result and errors are those of :func:`multilabel_focal_loss`.

    Args:
        gamma: Exponent, not negative.
        calibration_weight: Weight of the squared distance, not negative; 0 is focal loss.

    Note:
        Strictly proper for ``gamma=0`` only, as :func:`focal_calibration_loss`.

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
