"""Classwise calibration error."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import Binning
from calibrant._math.checks import Checked, check_choice, check_probs
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, calibration_sums, check_average, column_sums
from calibrant.metrics.squared_error import debiased_errors

__all__ = ["classwise_calibration_error"]


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
    count, also classes that no label names; ``average="weighted"`` puts the frequency of class ``k`` among
    the labels in the place of :math:`1/C`, so that rare classes count little and absent ones not at all. Of
    an event ``(N,)``, or of several labels per sample, it is the same as
    :func:`~calibrant.metrics.expected_calibration_error`, where the bins are described.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        num_bins: Number of bins.
        binning: ``"width"``, ``"mass"`` or ``"mukhoti"``.
        norm: ``"l1"`` or ``"l2"``, within each class.
        debias: Whether to subtract the bias of each class, as in
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
