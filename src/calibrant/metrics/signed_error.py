"""The two halves of the expected calibration error: promising too much, and too little."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import Binning
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, binned_error

__all__ = ["over_confidence_error", "under_confidence_error"]


def over_confidence_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_bins: int = 15,
    binning: Binning = "width",
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""The part of the expected calibration error that comes from bins where confidence exceeds accuracy.

    .. math:: \sum_b \frac{|S_b|}{N} \max\left( 0, \mathrm{conf}(S_b) - \mathrm{acc}(S_b) \right)

    Added to :func:`under_confidence_error` it is :func:`~calibrant.metrics.expected_calibration_error`, where
    the bins and what is judged are described; less that, it is the mean confidence minus the accuracy (with
    ``binning="mukhoti"``: of the samples that are in bins). For an event, probabilities that are too high
    count here, on whichever side of one half.

    ``probs`` are probabilities of shape ``(N, C)`` or ``(N,)``; ``labels`` are classes ``(N,)``, or outcomes
    in {0, 1} of the shape of ``probs``; ``weights`` have shape ``(N,)`` and are not negative; labels
    ``ignore_index`` are left out. All other arguments and the errors are as there.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Note:
        Each half is biased upward for small ``N``, by about half as much as the whole: a calibrated model has
        both. Not differentiable.

    References:
        The terms of Naeini et al., "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI
        2015, eq. (3), by sign. (The "overconfidence error" of Thulasidasan et al., NeurIPS 2019, multiplies
        each term by the confidence once more.)

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.9, 0.9, 0.3, 0.3]), torch.tensor([1, 0, 0, 1])
        >>> round(over_confidence_error(probs, labels).item(), 6)
        0.2
    """
    return binned_error(
        lambda sums: sums.excess_error(1), probs, labels, weights, ignore_index, average, num_bins, binning
    )


def under_confidence_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_bins: int = 15,
    binning: Binning = "width",
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""The part of the expected calibration error that comes from bins where accuracy exceeds confidence.

    .. math:: \sum_b \frac{|S_b|}{N} \max\left( 0, \mathrm{acc}(S_b) - \mathrm{conf}(S_b) \right)

    The other half of :func:`over_confidence_error`, by the same bins.

    ``probs`` are probabilities of shape ``(N, C)`` or ``(N,)``; ``labels`` are classes ``(N,)``, or outcomes
    in {0, 1} of the shape of ``probs``; ``weights`` have shape ``(N,)`` and are not negative; labels
    ``ignore_index`` are left out. All other arguments, the errors and the conventions are those of
    :func:`~calibrant.metrics.expected_calibration_error`.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Note:
        As for :func:`over_confidence_error`.

    References:
        As for :func:`over_confidence_error`: Naeini et al., AAAI 2015, eq. (3), by sign.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.9, 0.9, 0.3, 0.3]), torch.tensor([1, 0, 0, 1])
        >>> round(under_confidence_error(probs, labels).item(), 6)
        0.1
    """
    return binned_error(
        lambda sums: sums.excess_error(-1), probs, labels, weights, ignore_index, average, num_bins, binning
    )
