"""Thresholded adaptive calibration error."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import binned
from calibrant._math.checks import check_choice, check_num_bins, check_probs, check_share
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, averaged, check_average, columns

__all__ = ["thresholded_calibration_error"]


def thresholded_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    threshold: float = 0.01,
    num_bins: int = 15,
    norm: Literal["l1", "l2"] = "l1",
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Classwise error in bins of equal mass, of the probabilities that are not negligible (TACE).

    .. math::
        \mathrm{TACE} = \frac1C \sum_k \sum_b \frac{|S_{b,k}|}{|S_k|}
        \left| \mathrm{freq}_k(S_{b,k}) - \mathrm{conf}_k(S_{b,k}) \right| ,
        \qquad S_k = \{ i : p_{ik} \ge t \}

    With many classes most probabilities are close to zero and would fill all bins but the last; those below
    the threshold t are left out, and the rest of each class is sorted into bins of equal mass. A class with
    none left counts as 0. With ``threshold=0`` it is the adaptive calibration error (ACE), equal to
    :func:`~calibrant.metrics.classwise_calibration_error` with ``binning="mass"``.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        threshold: The smallest probability that counts.
        num_bins: Number of bins.
        norm: ``"l1"`` or ``"l2"``, within each class.
        average: ``"macro"`` for the mean over the classes, ``"none"`` for one value per class.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note:
        The value depends strongly on the threshold: name it. Nixon et al. weigh the bins of a class equally,
        which is the same up to one sample per bin. Biased upward for small ``N``. O(N C log N) time, O(N)
        memory besides the input. Not differentiable.

    References:
        Nixon et al., "Measuring Calibration in Deep Learning", CVPR Workshops 2019.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([[0.695, 0.3, 0.005], [0.5, 0.5, 0.0]]), torch.tensor([0, 1])
        >>> [round(e, 4) for e in thresholded_calibration_error(probs, labels, average="none").tolist()]
        [0.4025, 0.4, 0.0]
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_choice("norm", norm, ("l1", "l2"))
    check_average(average, checked, per_class=True)
    check_num_bins(num_bins)
    check_share("threshold", threshold)
    errors: list[Tensor] = []
    for column, outcomes in columns(checked):
        kept = column.to(torch.float64) >= threshold
        if checked.weights is not None:
            kept &= checked.weights > 0
        if not bool(kept.any()):
            errors.append(torch.zeros((), dtype=torch.float64, device=column.device))
            continue
        mass = None if checked.weights is None else checked.weights[kept]
        sums = binned(column[kept], outcomes[kept], num_bins=num_bins, binning="mass", weights=mass)
        errors.append(sums.calibration_error(norm))
    return averaged(torch.stack(errors), average)
