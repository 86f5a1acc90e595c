"""Binned calibration errors of all kinds; none is differentiable."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import Binning, PairSums, binned, pair_sums
from calibrant._math.checks import Checked, check_choice, check_num_bins, check_probs, check_share
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import (
    Average,
    Vector,
    averaged,
    calibration_sums,
    check_average,
    column_sums,
    columns,
    events,
    judged_sums,
    one_event,
    over_events,
)

__all__ = [
    "adaptive_calibration_error",
    "classwise_calibration_error",
    "expected_calibration_error",
    "maximum_calibration_error",
    "monotone_num_bins",
    "over_confidence_error",
    "squared_calibration_error",
    "sweep_calibration_error",
    "thresholded_calibration_error",
    "under_confidence_error",
]


@suggesting()
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

    The shapes set the task. Classes, ``probs (N, C)`` and ``labels (N,)``: the confidence is
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

    ``debias=True`` takes off what noise adds. With ``norm="l2"`` the squared gap of each bin is replaced by
    its unbiased estimate (:func:`~calibrant.metrics.squared_calibration_error`), and the root is taken of the
    sum, or of 0 where that is negative. With ``norm="l1"``, each gap g is replaced by
    :math:`2 |g| - E |g + s Z|`, Z standard normal and :math:`s^2` the variance of g by its residuals. If
    noise s makes as much of g as it made of the true gap, that is the true gap. The sum is at least 0.

    Args:
        probs: Probabilities in ``[0, 1]``: of the classes ``(N, C)`` (rows that miss one by up to 1e-3 are
            taken as they are), of an event ``(N,)``, or of several events ``(N, C)``.
        labels: Classes in ``0..C-1``, shape ``(N,)``; or outcomes in {0, 1} of the shape of ``probs``.
        num_bins: Number of bins.
        binning: Rule for sorting confidences into bins.
        norm: ``"l1"`` for the weighted mean of the gaps, ``"l2"`` for their weighted root mean square.
        debias: Subtract the bias from noise; not for ``binning="mukhoti"``.
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
        that: all of it from the square in ``norm="l2"``; in ``norm="l1"`` a calibrated model keeps 59% of
        the bias before the sum is cut at 0. Bins without two samples then count as 0. Not differentiable;
        gradients are cut. O(N C) time, O(N) memory; ``"mass"`` sorts. Sums are float64.

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
        sums = judged_sums(probs, labels, weights, ignore_index, average, num_bins, binning)
        return averaged(sums.calibration_error(norm), average)
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=True)
    check_average(average, checked)
    return averaged(debiased_errors(checked, num_bins, binning, norm), average)


@suggesting()
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

    The same as :func:`expected_calibration_error` with ``binning="mass"``, and so are arguments, value and
    errors.

    Note:
        Biased upward for small ``N``, as with bins of equal width. No bin is nearly empty, so no single
        sample decides much; in exchange the bins depend on the sample. O(N log N) time.

    References:
        Nguyen and O'Connor, EMNLP 2015 (bins of equal mass). Mukhoti et al., NeurIPS 2020 (the name AdaECE;
        their code: ``binning="mukhoti"``).

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


@suggesting()
def maximum_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_bins: int = 15,
    binning: Binning = "width",
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Largest gap between confidence and accuracy over the bins.

    .. math:: \mathrm{MCE} = \max_b \left| \mathrm{acc}(S_b) - \mathrm{conf}(S_b) \right|

    Empty bins count as 0. Task, bins, arguments and errors are those of
    :func:`expected_calibration_error`; the value is in ``[0, 1]``.

    Note:
        A single sample in a bin of its own decides the value: read it beside the bin counts of
        :func:`~calibrant.metrics.reliability_table`.

    References:
        Naeini et al., AAAI 2015, eq. (4).

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.9, 0.9, 0.1]), torch.tensor([1, 0, 0])
        >>> round(maximum_calibration_error(probs, labels).item(), 6)
        0.4
    """
    sums = judged_sums(probs, labels, weights, ignore_index, average, num_bins, binning)
    return averaged(sums.calibration_error("max"), average)


@suggesting()
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
    r"""Part of the expected calibration error from bins where confidence exceeds accuracy.

    .. math:: \sum_b \frac{|S_b|}{N} \max\left( 0, \mathrm{conf}(S_b) - \mathrm{acc}(S_b) \right)

    Added to :func:`under_confidence_error` it is :func:`expected_calibration_error`, where arguments, errors,
    bins and what is judged are described; less that, it is the mean confidence minus the accuracy (with
    ``binning="mukhoti"``: of the samples that are in bins). For an event, probabilities that are too high
    count here, on whichever side of one half. The value is in ``[0, 1]``.

    Note:
        Each half is biased upward for small ``N``, by about half as much as the whole.

    References:
        The terms of Naeini et al., AAAI 2015, eq. (3), by sign. (The "overconfidence error" of Thulasidasan
        et al., NeurIPS 2019, multiplies each term by the confidence once more.)

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.9, 0.9, 0.3, 0.3]), torch.tensor([1, 0, 0, 1])
        >>> round(over_confidence_error(probs, labels).item(), 6)
        0.2
    """
    sums = judged_sums(probs, labels, weights, ignore_index, average, num_bins, binning)
    return averaged(sums.excess_error(1), average)


@suggesting()
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
    r"""Part of the expected calibration error from bins where accuracy exceeds confidence.

    .. math:: \sum_b \frac{|S_b|}{N} \max\left( 0, \mathrm{acc}(S_b) - \mathrm{conf}(S_b) \right)

    The other half of :func:`over_confidence_error`, of the same arguments, by the same bins.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.9, 0.9, 0.3, 0.3]), torch.tensor([1, 0, 0, 1])
        >>> round(under_confidence_error(probs, labels).item(), 6)
        0.1
    """
    sums = judged_sums(probs, labels, weights, ignore_index, average, num_bins, binning)
    return averaged(sums.excess_error(-1), average)


@suggesting()
def sweep_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    binning: Literal["mass", "width"] = "mass",
    norm: Literal["l1", "l2"] = "l1",
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Calibration error with the most bins whose mean outcomes ascend (ECE sweep).

    .. math:: \mathrm{ECE}_{\mathrm{sweep}} = \mathrm{ECE}_{B^*} , \qquad
              B^* = \max \{ B : \bar y_1 \le \dots \le \bar y_b \text{ in } b \text{ bins for all } b \le B \}

    A better model has outcomes that rise with its confidence; the number of bins is raised from one until
    noise makes them fall. Empty bins are passed over, and there are never more bins than samples (of positive
    weight). Task, bins, arguments and errors are those of :func:`expected_calibration_error`; the
    authors recommend ``binning="mass"``. Each of several labels has its own number of bins. A weight of two
    is not the same as two copies: bins end at whole samples. The value is in
    ``[0, 1]``.

    Note:
        Less biased than a fixed number of bins when N is small or large. A model whose outcomes fall with its
        confidence gets one bin, and with it only the size of its mean residual. The number of bins is
        :func:`monotone_num_bins`. Time O(N log N) to sort, then in practice less; the first call compiles.
        Not differentiable.

    References:
        Roelofs, Cain, Shlens and Mozer, "Mitigating Bias in Calibration Error Estimation", AISTATS 2022.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.2, 0.4, 0.6, 0.8]), torch.tensor([0, 1, 0, 1])
        >>> round(sweep_calibration_error(probs, labels).item(), 6), monotone_num_bins(probs, labels)
        (0.2, 2)
    """
    check_choice("binning", binning, ("mass", "width"))
    check_choice("norm", norm, ("l1", "l2"))

    def measure(scores: Vector, outcomes: Vector, mass: Vector | None) -> float:
        most = _most_bins(scores, outcomes, mass, binning)
        held = torch.from_numpy(scores), torch.from_numpy(outcomes)
        own = None if mass is None else torch.from_numpy(mass)
        return float(binned(*held, num_bins=most, binning=binning, weights=own).calibration_error(norm))

    return over_events(measure, probs, labels, False, average, weights, ignore_index)


@suggesting()
def monotone_num_bins(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    binning: Literal["mass", "width"] = "mass",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> int:
    """Number of bins that :func:`sweep_calibration_error` uses; ``probs`` hold classes or one event.

    Arguments and errors are as there, but several labels per sample are refused (pass one column of each:
    ``probs[:, k], labels[:, k]``).

    Returns:
        From 1 to the number of samples.

    Example:
        >>> import torch
        >>> monotone_num_bins(torch.tensor([0.1, 0.2, 0.7, 0.9]), torch.tensor([0, 0, 1, 1]))
        4
    """
    check_choice("binning", binning, ("mass", "width"))
    return _most_bins(*one_event(probs, labels, weights, ignore_index), binning)


def _most_bins(scores: Vector, outcomes: Vector, weights: Vector | None, binning: str) -> int:
    from calibrant._math.monotone_bins import monotone_mass_bins, monotone_width_bins  # numba

    return (monotone_mass_bins if binning == "mass" else monotone_width_bins)(scores, outcomes, weights)


@suggesting()
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

    With many classes most probabilities are close to zero and would fill all bins but the last. Those below
    the threshold t are left out, and the rest of each class is sorted into bins of equal mass. A class with
    none left counts as 0. With ``threshold=0`` it is the adaptive calibration error (ACE), equal to
    :func:`~calibrant.metrics.classwise_calibration_error` with ``binning="mass"``. Other arguments are those
    of :func:`expected_calibration_error`; ``average="none"`` gives one value per class, each in ``[0, 1]``.

    Note:
        The value depends strongly on the threshold: name it. Nixon et al. weigh the bins of a class equally,
        which is the same up to one sample per bin. Biased upward for small ``N``. O(N C log N) time.

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
            errors.append(column.new_zeros((), dtype=torch.float64))
            continue
        mass = None if checked.weights is None else checked.weights[kept]
        sums = binned(column[kept], outcomes[kept], num_bins=num_bins, binning="mass", weights=mass)
        errors.append(sums.calibration_error(norm))
    return averaged(torch.stack(errors), average)


@suggesting()
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

    c is the confidence, y the outcome; task, bins, arguments and errors are those of
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
    """Sums over pairs in the bins, of every event."""
    check_num_bins(num_bins)
    check_choice("binning", binning, ("width", "mass"))
    rule = "mass" if binning == "mass" else "width"
    return [
        pair_sums(confidence, outcome, num_bins=num_bins, binning=rule, weights=checked.weights)
        for confidence, outcome in events(checked, classwise=classwise)
    ]


@suggesting()
def classwise_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_bins: int = 15,
    binning: Binning = "width",
    norm: Literal["l1", "l2"] = "l1",
    debias: bool = False,
    average: Average | Literal["weighted"] = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Calibration error of each class against all others, averaged over the classes.

    .. math::
        \mathrm{cwECE} = \frac{1}{C} \sum_k \sum_b \frac{|S_{b,k}|}{N}
        \left| \mathrm{freq}_k(S_{b,k}) - \mathrm{conf}_k(S_{b,k}) \right|

    :math:`S_{b,k}` are the samples whose probability of class ``k`` lies in bin ``b``. All ``C`` columns
    count, also classes that no label names. With ``average="weighted"`` the frequency of class ``k`` among
    the labels takes the place of :math:`1/C`: rare classes count little and absent ones not at all. For an
    event ``(N,)`` or several labels per sample, it is the same as :func:`expected_calibration_error`, where
    the bins are described.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        num_bins: Number of bins.
        binning: ``"width"``, ``"mass"`` or ``"mukhoti"``.
        norm: ``"l1"`` or ``"l2"``, within each class.
        debias: Subtract the bias of each class, as in
            :func:`~calibrant.metrics.expected_calibration_error`; not for ``binning="mukhoti"``.
        average: ``"macro"`` for the mean over the classes, ``"weighted"`` for the mean by how often (with
            weights, by what weight) each occurs, ``"none"`` for one value per class.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, an option does not exist, or of
            several labels to be weighted none ever occurs.

    Note:
        Shrinks with the number of classes, since most probabilities are then near zero: compare only at
        equal ``C``. O(N C) time; memory O(N + C num_bins) besides the input.

    References:
        Kull et al., "Beyond Temperature Scaling: Obtaining Well-Calibrated Multiclass Probabilities with
        Dirichlet Calibration", NeurIPS 2019. Nixon et al., "Measuring Calibration in Deep Learning", 2019.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1]]), torch.tensor([0, 1])
        >>> [round(value, 3) for value in classwise_calibration_error(probs, labels, average="none").tolist()]
        [0.2, 0.3, 0.1]
        >>> round(classwise_calibration_error(probs, labels, average="weighted").item(), 3)
        0.25
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_choice("norm", norm, ("l1", "l2"))
    check_choice("average", average, ("macro", "weighted", "none"))
    if average == "none":
        check_average(average, checked, per_class=True)
    if debias:
        errors = debiased_errors(checked, num_bins, binning, norm, classwise=True)
        errors = errors[0] if checked.task == "binary" else errors
    else:
        sums = (calibration_sums if checked.task == "binary" else column_sums)(checked, num_bins, binning)
        errors = sums.calibration_error(norm)
    if average == "weighted":
        return torch.linalg.vecdot(errors, _prevalence(checked)) if errors.ndim else errors
    return errors.mean() if average == "macro" else errors


def _prevalence(checked: Checked) -> Float[Tensor, " C"]:
    """Share of each class, or of each label among all that occur, by weight."""
    labels, weights = checked.target, checked.weights
    if checked.task == "multiclass":
        counts = torch.bincount(labels, weights, minlength=checked.num_classes).to(torch.float64)
    else:
        occurs = labels.to(torch.float64)
        counts = occurs.sum(dim=0) if weights is None else weights @ occurs
    if not bool(counts.any()):
        raise InputError('`average` must be "macro" or "none" where no label ever occurs.')
    return counts / counts.sum()
