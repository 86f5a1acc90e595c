"""The bins of all classes, where samples come in clusters: sums of each cluster, and noise made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.binning import width_bin_index
from calibrant.evaluation.judging.labelled_probs import LabelledProbs
from calibrant.evaluation.resampling.clustered_noise import SignedSums
from calibrant.evaluation.resampling.clusters import Clustered
from calibrant.evaluation.resampling.events import Indices, Matrix, Vector


class ClassClusters:
    """Sums of each cluster over the bins of all classes that hold anything.

    Args:
        table: Probabilities of classes that exclude each other.
        codes: The number of each row's cluster ``(N,)``.
        filled: Which bins of which classes ``(C, B)`` are not empty; there are M of them.
    """

    def __init__(self, table: LabelledProbs, codes: Indices, filled: NDArray[np.bool_]) -> None:
        from scipy.sparse import csr_array

        num_classes, num_bins = filled.shape
        places = np.cumsum(filled).reshape(filled.shape) - 1
        shape = (int(filled.sum()), int(codes.max()) + 1)
        classes = np.arange(num_classes)
        residuals: Any = csr_array(shape)
        masses: Any = csr_array(shape)
        for rows in table.row_blocks():
            probs = table.probs_of(rows)
            bins, stated = width_bin_index(probs, num_bins).numpy(), probs.numpy()
            labels = table.labels[rows].numpy()
            weight = np.ones(len(stated)) if table.weights is None else table.weights[rows]
            where = (places[classes, bins].ravel(), np.repeat(codes[rows], num_classes))
            excess = (labels[:, None] == classes) - stated
            residuals = residuals + csr_array(((weight[:, None] * excess).ravel(), where), shape=shape)
            masses = masses + csr_array((np.repeat(weight, num_classes), where), shape=shape)
        self._residuals, self._masses = residuals.tocsr(), masses.tocsr()

    def class_variance(self, starts: Indices) -> Vector:
        """The variance ``(C,)`` of how often each class occurs; ``starts`` are the classes' first bins."""
        of_classes = np.zeros(self._residuals.shape[0], np.int64)
        of_classes[starts[1:]] = 1
        totals = _sum_rows(self._residuals, np.cumsum(of_classes), len(starts))
        return np.asarray(totals.power(2).sum(axis=1)).ravel()

    def signed(self, variance: Vector, seed: tuple[int, ...]) -> SignedSums:
        """The noise; ``variance`` ``(M,)`` is that of independent samples."""
        return SignedSums(self._residuals, variance, seed)

    def drawn_masses(self, drawn: Matrix) -> Matrix:
        """The masses ``(r, M)`` with the signs ``(G, r)`` of some draws."""
        return (self._masses @ drawn).T

    def clustered(self, masses: Matrix, total: float) -> Clustered:
        """What an interval needs; ``masses`` are those of the draws that are kept."""
        return Clustered.of(self._residuals / total, self._masses / total, masses / total)


def variance_by_cluster(table: LabelledProbs, codes: Indices) -> Vector:
    """The variance of how often each class occurs ``(C,)``, cluster by cluster in the memory of some rows."""
    total = torch.zeros(table.num_classes, dtype=torch.float64)
    current, number = torch.zeros_like(total), -1
    order = np.argsort(codes, kind="stable")
    for rows, probs in table.in_order(order):
        residuals = -probs
        residuals[torch.arange(len(rows)), table.labels[torch.from_numpy(rows)]] += 1
        if table.weights is not None:
            residuals *= torch.from_numpy(table.weights[rows, None])
        numbers, starts = np.unique(codes[rows], return_index=True)
        for each, first, last in zip(numbers.tolist(), starts, [*starts[1:], len(rows)], strict=True):
            if each != number:
                total += current.square()
                current, number = torch.zeros_like(total), each
            current += residuals[first:last].sum(dim=0)
    return (total + current.square()).numpy()


def _sum_rows(matrix: Any, index: Indices, size: int) -> Any:
    from scipy.sparse import csr_array

    ones = (np.ones(len(index)), (index, np.arange(len(index))))
    return (csr_array(ones, shape=(size, len(index))) @ matrix).tocsr()
