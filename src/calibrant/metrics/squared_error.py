"""Squared calibration error, of which there is an unbiased estimate."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import Binning
from calibrant._math.checks import Checked, check_choice, check_num_bins, check_probs
from calibrant._math.debias import PairSums, pair_sums
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, averaged, check_average, events

__all__ = ["squared_calibration_error"]


def squared_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_bins: int = 15,
    binning: Literal["width", "mass"] = "width",
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Unbiased estimate of the squared (binned) calibration error; it may be negative.

    .. math::
        \sum_b \frac{|S_b|}{N} \cdot \frac{1}{|S_b| (|S_b| - 1)} \sum_{i \ne j \in S_b} (c_i - y_i)(c_j - y_j)

    c is the confidence, y the outcome; what is judged, bins, arguments and errors are those of
    :func:`~calibrant.metrics.expected_calibration_error`. The plug-in, its ``norm="l2"`` squared, contains
    the products of each residual with itself, and is too large by the variance of the gaps. Here only
    different samples meet, so the mean over many test sets is :math:`\sum_b P_b \left( E[c - y \mid b]
    \right)^2`, be they as small as they may: 0 for a calibrated model.

    Where an edge of bins of equal mass parts equal confidences, each sample is in both bins by the part that
    fell there. Weights weigh independent samples: a weight of two is not the same as the sample twice, whose
    copies would not be independent.

    Returns:
        Scalar float64 in ``[-1, 1]``; shape ``(C,)`` for ``average="none"``.

    Note:
        Bins with fewer than two samples count as zero (of a single sample the value is 0), which biases
        towards zero by the error expected there. Equal-mass bins depend on the sample, and the estimate is
        unbiased for fixed bins only. It estimates the square, not its root: ``expected_calibration_error(...,
        norm="l2", debias=True)`` is the root of its positive part. Kumar et al. subtract the variance of
        the outcomes instead of the residuals', which is the same where the confidences in a bin are equal,
        and else subtracts slightly too much. Bins hide the errors that cancel in them, so this is a lower
        bound in the mean of the error without bins. O(N C) time, O(N) memory.

    References:
        Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019, section 5. Bröcker, "Estimating
        Reliability and Resolution of Probability Forecasts through Decomposition of the Empirical Score",
        Climate Dynamics 39, 2012. Ferro and Fricker, "A Bias-Corrected Decomposition of the Brier Score",
        Quarterly Journal of the Royal Meteorological Society 138, 2012.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.75, 0.75, 0.75, 0.75]), torch.tensor([1, 1, 0, 1])
        >>> squared_calibration_error(probs, labels).item()
        -0.0625
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=True)
    check_average(average, checked)
    errors = torch.stack([sums.squared_error() for sums in judged_pairs(checked, num_bins, binning)])
    return averaged(errors, average)


def debiased_errors(
    checked: Checked, num_bins: int, binning: Binning, norm: Literal["l1", "l2"], *, classwise: bool = False
) -> Float[Tensor, "*columns"]:
    """Bias-corrected errors: one value per label, or with ``classwise`` per class."""
    if binning == "mukhoti":
        raise InputError('`debias` must be False for binning="mukhoti"; use binning="mass".')
    pairs = judged_pairs(checked, num_bins, binning, classwise=classwise)
    errors = [sums.absolute_error() if norm == "l1" else sums.squared_error() for sums in pairs]
    positive = torch.stack(errors).clamp(min=0)
    return positive if norm == "l1" else positive.sqrt()


def judged_pairs(checked: Checked, num_bins: int, binning: str, *, classwise: bool = False) -> list[PairSums]:
    """Sums over pairs in the bins, of everything that is judged."""
    check_num_bins(num_bins)
    check_choice("binning", binning, ("width", "mass"))
    rule = "mass" if binning == "mass" else "width"
    return [
        pair_sums(confidence, outcome, num_bins=num_bins, binning=rule, weights=checked.weights)
        for confidence, outcome in events(checked, classwise=classwise)
    ]
