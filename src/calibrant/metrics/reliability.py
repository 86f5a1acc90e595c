"""Table of a reliability diagram, and calibration error of the k most probable classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, row_slices
from calibrant._math.binning import Binning, BinSums, binned
from calibrant._math.checks import check_choice, check_num_bins, check_probs
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import calibration_sums, refuse_several

__all__ = ["ReliabilityTable", "reliability_table", "top_k_calibration_error"]


@dataclass(frozen=True)
class ReliabilityTable:
    """One entry per bin; ``None`` if a bin is empty."""

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    confidence: tuple[float | None, ...]
    accuracy: tuple[float | None, ...]

    def __str__(self) -> str:
        lines = [f"{'bin':>15}  {'count':>9}  {'confidence':>10}  {'accuracy':>8}"]
        for low, high, count, *means in zip(
            self.edges[:-1], self.edges[1:], self.counts, self.confidence, self.accuracy, strict=True
        ):
            shown = ("–" if mean is None else f"{mean:.4f}" for mean in means)
            size = f"{count:.0f}" if count.is_integer() else f"{count:.4g}"
            lines.append("{:>15}  {:>9}  {:>10}  {:>8}".format(f"{low:.4f}–{high:.4f}", size, *shown))
        return "\n".join(lines)


@suggesting()
def reliability_table(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_bins: int = 15,
    binning: Binning = "width",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> ReliabilityTable:
    r"""Count, mean confidence and accuracy of each bin.

    The bins are those of :func:`~calibrant.metrics.expected_calibration_error`, which is
    :math:`\sum_b n_b |\mathrm{acc}_b - \mathrm{conf}_b| / \sum_b n_b` over this table (for
    ``binning="mukhoti"``: divided by the number of all samples).

    Args:
        probs: Probabilities of the classes ``(N, C)`` or of an event ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1}, shape ``(N,)``.
        num_bins: Number of bins.
        binning: ``"width"``, ``"mass"`` or ``"mukhoti"``.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns: ``edges`` (``num_bins + 1`` numbers; with ``binning="mass"`` the minimum, then the largest
        confidence of each bin), ``counts`` (weights, where given), ``confidence`` and ``accuracy`` (for an
        event: its rate). Empty bins have ``None``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, an option does not exist, or
            samples have several labels (pass one column of each: ``probs[:, k], labels[:, k]``).

    Note:
        With ``binning="mass"`` equal confidences share their mean outcome, also across the edge of a bin, so
        the accuracy of a bin need not be a multiple of one over its count.

    References:
        DeGroot and Fienberg, "The Comparison and Evaluation of Forecasters", The Statistician 32, 1983.

    Example:
        >>> import torch
        >>> table = reliability_table(torch.tensor([0.2, 0.9, 0.8]), torch.tensor([0, 1, 0]), num_bins=2)
        >>> table.edges, table.counts, table.accuracy
        ((0.0, 0.5, 1.0), (1.0, 2.0), (0.0, 0.5))
        >>> print(table)
                    bin      count  confidence  accuracy
          0.0000–0.5000          1      0.2000    0.0000
          0.5000–1.0000          2      0.8500    0.5000
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=True)
    refuse_several(checked, "table")
    return table_of(calibration_sums(checked, num_bins, binning))


def table_of(sums: BinSums) -> ReliabilityTable:
    """Table from the sums of bins."""
    counts = sums.counts.tolist()
    return ReliabilityTable(
        edges=tuple(sums.edges.tolist()),
        counts=tuple(counts),
        confidence=_means(sums.confidences.tolist(), counts),
        accuracy=_means(sums.outcomes.tolist(), counts),
    )


def _means(sums: list[float], counts: list[float]) -> tuple[float | None, ...]:
    return tuple(total / count if count > 0 else None for total, count in zip(sums, counts, strict=True))


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
