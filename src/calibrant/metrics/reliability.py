"""Table of a reliability diagram."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import Binning, BinSums
from calibrant._math.checks import check_probs
from calibrant._math.errors import InputError
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import calibration_sums

__all__ = ["ReliabilityTable", "reliability_table"]


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
    if checked.task == "multilabel":
        raise InputError(
            "`labels` must have shape (N,) for one table; pass one column: `probs[:, k], labels[:, k]`."
        )
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
