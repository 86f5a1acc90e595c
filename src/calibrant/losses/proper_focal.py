"""Properized focal loss: focal loss on the focal calibration map's inverse."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from calibrant._math.focal_map_inverse import inverse_focal_map_logits
from calibrant._math.shapes import Float, Integer
from calibrant.losses._closed_form import can_look
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import Terms, loss_of_rows, row_values
from calibrant.losses._rows import Reduction, Rows, as_rows, check_not_negative

__all__ = ["ProperFocalLoss", "proper_focal_loss"]


@properness("strictly proper: the inverse focal map undoes what focal loss elicits")
def proper_focal_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    gamma: float = 3.0,
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Properized focal loss.

    .. math:: \ell = -(1 - q_t)^\gamma \log q_t, \qquad q = \rho_\gamma^{-1}(\mathrm{softmax}(z))

    with the focal calibration map :math:`\rho_\gamma`. A network trained with focal loss asks for
    :math:`\rho_\gamma` after it; one trained with this loss gives its output at once.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        gamma: Exponent, not negative; 0 is cross-entropy.
        targets: Distributions over the classes in place of ``labels``; the loss is then its expectation.
        weight: Weight of each class, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: See :func:`focal_loss`.

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or ``gamma`` is negative.
        TypeError: If ``labels`` are not integers.

    Note:
        Strictly proper. The inverse has no closed form: it is solved by Newton's method, in a few passes
        over the logits, and differentiated as an implicit function. O(N C) time and memory.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", ECAI 2024. Charoenphakdee et al., "On Focal Loss for Class-Posterior Probability
        Estimation", CVPR 2021.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.5, 0.5]]).log()
        >>> round(proper_focal_loss(logits, torch.tensor([0]), gamma=2).item(), 4)  # the map keeps even odds
        0.1733
    """
    check_not_negative(gamma=gamma)
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    if gamma == 0:
        return rows.layout.finish(rows.cross_entropy())

    if rows.soft or gamma > _LARGEST or not can_look(rows.logits, rows.labels, rows.weight):
        return _plain(gamma, rows)
    from calibrant.losses._compiled_proper import proper_focal  # numba: imported where it is first needed

    return loss_of_rows(rows, proper_focal(rows, gamma), partial(_plain, gamma))


_LARGEST = 6.0  # exponent that is compiled


def _plain(gamma: float, rows: Rows) -> Tensor:
    mapped = inverse_focal_map_logits(rows.logits, gamma)
    return rows.reduce(row_values(rows._replace(logits=mapped), Terms(gamma)))


class ProperFocalLoss(LossModule, function=proper_focal_loss, check=check_not_negative):
    """:func:`proper_focal_loss` as a module."""

    gamma: float = 3.0
