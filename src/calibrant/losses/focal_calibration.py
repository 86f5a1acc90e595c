"""Focal calibration loss (FCL): focal loss and a distance between the probabilities and the label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from calibrant._math.errors import InputError
from calibrant.losses._module import LossModule
from calibrant.losses._row_loss import Terms, row_loss
from calibrant.losses._rows import check_number
from calibrant.losses.focal import focal_loss

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from calibrant.losses._rows import Reduction

Norm: TypeAlias = Literal["l1", "l2"]


def focal_calibration_loss(
    logits: Float[Tensor, "N C ..."],
    labels: Int[Tensor, "N ..."] | None = None,
    *,
    gamma: float = 3.0,
    calibration_weight: float = 0.5,
    norm: Norm = "l2",
    targets: Float[Tensor, "N C ..."] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*d"]:
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
        reduction: As in :func:`focal_loss`.

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        ValueError: If shapes disagree or an option is out of range.
        TypeError: If ``labels`` are not integers.

    Note:
        Strictly proper for ``gamma=0`` with the squared distance only, not for every positive weight as the
        reference
        says: for a binary event of probability 0.8 and ``gamma=2`` the minimum is at 0.627, 0.674, 0.701 for
        weights 0, 0.5, 1. The distance ``"l1"`` alone is minimised by certainty. Differentiable any number of
        times. O(N C) time and memory.

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
    check_number("gamma", gamma)
    check_number("calibration_weight", calibration_weight)
    _check_norm(norm)
    if calibration_weight == 0:
        return focal_loss(
            logits,
            labels,
            gamma=gamma,
            targets=targets,
            weight=weight,
            ignore_index=ignore_index,
            reduction=reduction,
        )
    distance = {norm: calibration_weight}
    return row_loss(
        logits,
        labels,
        Terms(gamma, **distance),
        targets=targets,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
    )


def _check_norm(norm: str) -> None:
    if norm not in ("l1", "l2"):
        raise InputError(f"`norm` must be 'l1' or 'l2'; got {norm!r}.")


class FocalCalibrationLoss(LossModule):
    """Module of :func:`focal_calibration_loss`."""

    shown = ("gamma", "calibration_weight", "norm")

    def __init__(
        self,
        *,
        gamma: float = 3.0,
        calibration_weight: float = 0.5,
        norm: Norm = "l2",
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        check_number("gamma", gamma)
        check_number("calibration_weight", calibration_weight)
        _check_norm(norm)
        self.gamma = gamma
        self.calibration_weight = calibration_weight
        self.norm: Norm = norm

    def forward(
        self, logits: Tensor, labels: Tensor | None = None, *, targets: Tensor | None = None
    ) -> Tensor:
        """The loss; see :func:`focal_calibration_loss`."""
        return focal_calibration_loss(
            logits,
            labels,
            gamma=self.gamma,
            calibration_weight=self.calibration_weight,
            norm=self.norm,
            targets=targets,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )
