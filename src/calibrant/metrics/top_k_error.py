"""Calibration error of the k most probable classes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, row_slices
from calibrant._math.binning import Binning, binned
from calibrant._math.checks import check_choice, check_num_bins, check_probs
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting

__all__ = ["top_k_calibration_error"]


@suggesting()
def top_k_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    k: int = 5,
    judge: Literal["set", "rank"] = "set",
    num_bins: int = 15,
    binning: Binning = "width",
    norm: Literal["l1", "l2"] = "l1",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""]:
    r"""Calibration error of the k most probable classes, as a set or the k-th alone.

    .. math::
        \text{set:}\quad c_i = \sum_{r \le k} p_{i(r)} , \; y_i = \mathbf 1[\text{label among the first } k]
        \qquad
        \text{rank:}\quad c_i = p_{i(k)} , \; y_i = \mathbf 1[\text{label is the } k\text{-th}]

    :math:`p_{i(1)} \ge p_{i(2)} \ge \dots` are the sorted probabilities of a row; of equally probable classes
    the lower comes first. Confidences and outcomes go into the bins of
    :func:`~calibrant.metrics.expected_calibration_error`, which both are for ``k=1``.

    Args:
        probs: Class probabilities, shape ``(N, C)``.
        labels: Classes in ``0..C-1``, shape ``(N,)``.
        k: Number of classes, from 1 to ``C``.
        judge: With ``"set"`` the sum of the k largest predicts that the label is among them (calibration of
            top-k accuracy), with ``"rank"`` the k-th largest that it is the label.
        num_bins: Number of bins.
        binning: ``"width"``, ``"mass"`` or ``"mukhoti"``.
        norm: ``"l1"`` or ``"l2"``.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, an option does not exist, or
            labels are not classes.

    Note:
        Biased upward for small ``N``, as every plug-in. With ``k = C`` the set is everything and the error 0
        up to the rounding of the rows' sums. O(N C) time and O(N) memory besides the input. Not
        differentiable.

    References:
        Gupta et al., "Calibration of Neural Networks using Splines", ICLR 2021 (r-th and within-r
        calibration).

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]]), torch.tensor([0, 2])
        >>> round(top_k_calibration_error(probs, labels, k=2, num_bins=1).item(), 6)
        0.35
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_choice("judge", judge, ("set", "rank"))
    check_choice("norm", norm, ("l1", "l2"))
    check_choice("binning", binning, ("width", "mass", "mukhoti"))
    check_num_bins(num_bins)
    table, target = checked.scores, checked.target
    if checked.task != "multiclass":
        raise InputError("`probs` must have shape (N, C) with one class (N,) per sample in `labels`.")
    if not 1 <= k <= checked.num_classes:
        raise InputError(f"`k` must be in 1..{checked.num_classes}, the number of classes; got {k}.")

    confidences = torch.empty(checked.num_samples, dtype=torch.float64, device=table.device)
    places = torch.empty_like(target)  # of the label among the sorted classes, from 0
    for rows in row_slices(table):
        chunk, label = table[rows], target[rows, None]
        largest = chunk.topk(k, dim=1).values.to(torch.float64)
        confidences[rows] = largest.sum(dim=1) if judge == "set" else largest[:, -1]
        own = chunk.gather(1, label)
        before = (chunk == own) & (torch.arange(checked.num_classes, device=table.device) < label)
        places[rows] = ((chunk > own) | before).sum(dim=1)
    hits = places < k if judge == "set" else places == k - 1
    sums = binned(confidences, hits, num_bins=num_bins, binning=binning, weights=checked.weights)
    return sums.calibration_error(norm)
