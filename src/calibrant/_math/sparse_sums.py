"""Sums over the bins of very many classes, nearly all of whose probabilities lie in the lowest bin."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._math.binning import BinSums, width_bin_index, width_edges
from calibrant._math.shapes import Float, Int


class SparseColumnSums:
    """What :func:`calibrant._math.binning.width_column_sums` gives, added up block by block.

    A row sums to one, so that fewer of its probabilities than there are bins lie above the lowest bin.

    Example:
        >>> found = SparseColumnSums(3, num_bins=2)
        >>> found.add(torch.tensor([[0.1, 0.2, 0.7], [0.9, 0.05, 0.05]]).double(), torch.tensor([2, 1]), None)
        >>> found.sums().counts.tolist()
        [[1.0, 1.0], [2.0, 0.0], [1.0, 1.0]]
    """

    def __init__(self, num_classes: int, num_bins: int) -> None:
        self._edges = width_edges(num_bins)
        shape = (num_classes, num_bins)
        self._counts, self._confidences, self._outcomes = torch.zeros((3, *shape), dtype=torch.float64)
        self._total = 0.0
        self._rows, self._above = 0, torch.zeros(num_classes, dtype=torch.int64)

    def add(
        self, probs: Float[Tensor, "n C"], labels: Int[Tensor, " n"], weights: Float[Tensor, " n"] | None
    ) -> None:
        """Count some rows."""
        num_bins = self._counts.shape[1]
        mass = torch.ones(len(probs), dtype=torch.float64) if weights is None else weights
        above = probs > self._edges[1]
        self._confidences[:, 0] += mass @ torch.where(above, 0.0, probs)
        self._total += float(mass.sum())
        rows, classes = above.nonzero(as_tuple=True)
        self._rows += len(probs)
        self._above += torch.bincount(classes, minlength=len(self._above))
        stated = probs[rows, classes]
        cells = classes * num_bins + width_bin_index(stated, num_bins)
        for sums, values in ((self._counts, mass[rows]), (self._confidences, mass[rows] * stated)):
            sums.view(-1).index_add_(0, cells, values)
        own = labels * num_bins + width_bin_index(probs.gather(1, labels[:, None])[:, 0], num_bins)
        self._outcomes.view(-1).index_add_(0, own, mass)

    def sums(self) -> BinSums:
        """Of all rows so far."""
        counts = self._counts.clone()
        lowest = (self._total - counts[:, 1:].sum(dim=1)).clamp(min=0.0)
        counts[:, 0] = torch.where(self._above < self._rows, lowest, 0.0)  # no rounding where none is there
        return BinSums(self._edges, counts, self._confidences, self._outcomes, total=self._total)
