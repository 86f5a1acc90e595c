"""Expected calibration error, in bins of equal width or of equal mass."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import Binning
from calibrant._math.checks import check_choice, check_probs
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, averaged, binned_error, check_average
from calibrant.metrics.squared_error import debiased_errors

__all__ = ["adaptive_calibration_error", "expected_calibration_error"]


def expected_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_bins: int = 15,
    binning: Binning = "width",
    norm: Literal["l1", "l2"] = "l1",
    debias: bool = False,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Expected calibration error: of the top label, or of an event.

    .. math::
        \mathrm{ECE} = \sum_b \frac{|S_b|}{N} \left| \mathrm{acc}(S_b) - \mathrm{conf}(S_b) \right|, \qquad
        \mathrm{ECE}_2 = \Big( \sum_b \frac{|S_b|}{N} \left( \mathrm{acc}(S_b) - \mathrm{conf}(S_b) \right)^2
        \Big)^{1/2}

    What is judged follows from the shapes. Classes, ``probs (N, C)`` and ``labels (N,)``: the confidence is
    the largest probability, the outcome whether that class (the lowest among equals) is the true one. An
    event, both ``(N,)``: the confidence is the probability of label 1, the outcome the label. Several labels
    per sample, both ``(N, C)``: every column is an event.

    * ``binning="width"``: bins :math:`[0, 1/B], (1/B, 2/B], \dots`, so 0 and 1 each fall in a real bin.
    * ``binning="mass"``: the sorted confidences are split after the first :math:`\lceil jN/B \rceil`, so the
      sizes differ by at most one; equal confidences share their mean outcome, so the order of the rows never
      matters. With weights a bin ends at the first sample with which the cumulative weight reaches
      :math:`j/B` of the whole (equal confidences in order of weight).
    * ``binning="mukhoti"``: interpolated quantiles as edges, bins open on the left, as in the code of
      Mukhoti et al. It loses the samples of lowest confidence (and is 0 where all are equal); for
      comparison with published numbers only. It takes no weights.

    ``debias=True`` takes off what chance adds. With ``norm="l2"`` the squared gap of each bin is replaced by
    its unbiased estimate (:func:`~calibrant.metrics.squared_calibration_error`), and the root is taken of the
    sum, or of 0 where that is negative. With ``norm="l1"``, each gap g, whose variance :math:`s^2` is
    estimated from its residuals, is replaced by :math:`2 |g| - E |g + s Z|`, Z standard normal: if noise s
    makes as much of g as it made of the true gap, that is the true gap. The sum is at least 0.

    Args:
        probs: Probabilities in ``[0, 1]``: of the classes ``(N, C)`` (rows that miss one by up to 1e-3 are
            taken as they are), of an event ``(N,)``, or of several events ``(N, C)``.
        labels: Classes in ``0..C-1``, shape ``(N,)``; or outcomes in {0, 1} of the shape of ``probs``.
        num_bins: Number of bins.
        binning: How confidences are sorted into bins.
        norm: ``"l1"`` for the weighted mean of the gaps, ``"l2"`` for their weighted root mean square.
        debias: Whether to take off what chance adds; not for ``binning="mukhoti"``.
        average: With several labels per sample: ``"macro"`` for the mean over the labels, ``"none"`` for one
            value per label.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]`` (a fraction, not per cent) on the device of ``probs``; shape ``(C,)`` for
        ``average="none"``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note:
        Biased upward for small ``N``: a calibrated model does not score 0. ``debias=True`` removes most of
        that: all of it from the square in ``norm="l2"``; in ``norm="l1"`` a calibrated model keeps 59 % of
        the bias before the sum is cut at 0. Bins without two samples then count as 0. Not differentiable;
        gradients are cut. O(N C) time, O(N) memory besides the input; ``"mass"`` sorts. Sums are float64
        whatever the input's dtype.

    References:
        Naeini et al., "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015, eq. (3).
        Nguyen and O'Connor, "Posterior Calibration and Exploratory Analysis for Natural Language Processing
        Models", EMNLP 2015 (equal mass). Kumar et al., "Verified Uncertainty Calibration", NeurIPS 2019
        (:math:`\ell_2`, and debiasing). Roelofs et al., "Mitigating Bias in Calibration Error Estimation",
        AISTATS 2022 (debiasing compared). Mukhoti et al., "Calibrating Deep Neural Networks using Focal
        Loss", NeurIPS 2020.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([[0.05, 0.95], [0.0, 1.0]]), torch.tensor([1, 0])
        >>> round(expected_calibration_error(probs, labels).item(), 3)
        0.475
        >>> probs, labels = torch.tensor([0.75, 0.75, 0.75, 0.75, 0.75]), torch.tensor([1, 1, 0, 0, 0])
        >>> round(expected_calibration_error(probs, labels, norm="l2").item(), 4)
        0.35
        >>> round(expected_calibration_error(probs, labels, norm="l2", debias=True).item(), 4)
        0.25
    """
    check_choice("norm", norm, ("l1", "l2"))
    if not debias:
        return binned_error(
            lambda sums: sums.calibration_error(norm),
            probs,
            labels,
            weights,
            ignore_index,
            average,
            num_bins,
            binning,
        )
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=True)
    check_average(average, checked)
    return averaged(debiased_errors(checked, num_bins, binning, norm), average)


def adaptive_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_bins: int = 15,
    norm: Literal["l1", "l2"] = "l1",
    debias: bool = False,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    """Expected calibration error in bins of equal mass (adaptive ECE).

    The same as :func:`expected_calibration_error` with ``binning="mass"``.

    ``probs`` are probabilities of shape ``(N, C)`` or ``(N,)``; ``labels`` are classes ``(N,)``, or outcomes
    in {0, 1} of the shape of ``probs``; ``weights`` have shape ``(N,)`` and are not negative; labels
    ``ignore_index`` are left out. All other arguments, the errors and the conventions are as there.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Note:
        Biased upward for small ``N``, as with bins of equal width. No bin is nearly empty, so no single
        sample decides much; in exchange the bins depend on the sample. Not differentiable. O(N log N) time
        beside the pass over the table.

    References:
        Nguyen and O'Connor, "Posterior Calibration and Exploratory Analysis for Natural Language Processing
        Models", EMNLP 2015 (bins of equal mass). Mukhoti et al., "Calibrating Deep Neural Networks using
        Focal Loss", NeurIPS 2020 (the name AdaECE; their code: ``binning="mukhoti"``).

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.2, 0.4, 0.6, 0.8]), torch.tensor([0, 0, 1, 1])
        >>> round(adaptive_calibration_error(probs, labels, num_bins=2).item(), 6)
        0.3
    """
    return expected_calibration_error(
        probs,
        labels,
        num_bins=num_bins,
        binning="mass",
        norm=norm,
        debias=debias,
        average=average,
        weights=weights,
        ignore_index=ignore_index,
    )
