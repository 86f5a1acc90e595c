r"""Bins of equal mass from a histogram of fixed size that adds up over batches and processes.

The exact error in bins of equal mass needs every confidence. Here confidences are counted in cells of equal
width on the scale of log-odds, since those of networks crowd against one, where cells of equal width would
not tell them apart. A boundary between two bins that falls inside a cell splits it in proportion.

How wrong can that be? Let :math:`R(u)` be the sum of confidence minus outcome over the sorted samples up to
weight :math:`u`. The error is :math:`\sum_j |R(e_{j+1}) - R(e_j)| / W`, and the sketch knows :math:`R` at the
ends of the cells. In a cell of weight w and width h, let outcomes of weight s be 1. The sum of the outcomes
leaves the straight line by at most :math:`s (w - s) / w` (all ones first, or last), and that of the
confidences by at most :math:`h w / 4`. The exact rule ends its bins at whole samples, somewhere in the same
cell, which moves the line by at most the cell's residual :math:`|r|`. Every inner boundary belongs to two
bins, so

.. math:: |\mathrm{sketch} - \mathrm{exact}| \le \frac2W \sum_{j=1}^{B-1}
          \Big( \frac{s (w - s)}{w} + \frac{h w}{4} + |r| \Big)_{\text{cell of boundary } j} .
"""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._math.binning import REACHED, BinSums, bin_sums
from calibrant._math.shapes import Float, Int, Shaped

NUM_CELLS = 2**14

_LARGEST_LOG_ODDS = 36.0  # beyond, float64 has two probabilities below one left


def sketch_sums(
    confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"], Float[Tensor, " M"]]:
    inner = _cell_edges()[1:-1].to(confidences.device)
    index = torch.searchsorted(inner, confidences.to(torch.float64).contiguous())
    return bin_sums(index, NUM_CELLS, confidences, outcomes, weights)


def sketch_bins(
    counts: Float[Tensor, " M"],
    confidences: Float[Tensor, " M"],
    outcomes: Float[Tensor, " M"],
    *,
    num_bins: int,
) -> BinSums:
    reached, cell, targets = _boundaries(counts, num_bins)
    edges = _cell_edges().to(counts.device)
    before = reached - counts  # (M,), the weight below each cell
    share = ((targets - before[cell]) / counts[cell].where(counts[cell] > 0, 1.0)).clamp(0, 1)
    share[0], share[-1] = 0.0, 1.0
    sums = (
        (each.cumsum(dim=0)[cell] - (1 - share) * each[cell]).diff()
        for each in (counts, confidences, outcomes)
    )
    return BinSums(torch.cat([edges[cell[:1]], edges[cell[1:] + 1]]), *sums, total=float(reached[-1]))


def sketch_error_bound(
    counts: Float[Tensor, " M"],
    confidences: Float[Tensor, " M"],
    outcomes: Float[Tensor, " M"],
    *,
    num_bins: int,
) -> Float[Tensor, ""]:
    """Bound on the difference between the l1 error of ``sketch_bins`` and the exact one."""
    reached, cell, _ = _boundaries(counts, num_bins)
    split = cell[1:-1]
    weight, ones = counts[split], outcomes[split]
    width = _cell_edges().to(counts.device).diff()[split]
    slack = ones * (weight - ones) / weight + width * weight / 4 + (confidences[split] - ones).abs()
    return 2 * slack.sum() / reached[-1]


def _boundaries(
    counts: Tensor, num_bins: int
) -> tuple[Float[Tensor, " M"], Int[Tensor, " {num_bins}+1"], Float[Tensor, " {num_bins}+1"]]:
    """Cumulative weight of cells, cell of each bin boundary, and weight below each boundary."""
    reached = counts.cumsum(dim=0)
    targets = torch.arange(num_bins + 1).to(counts) / num_bins * reached[-1]
    cell = torch.searchsorted(reached, targets * REACHED)  # the tolerance of `mass_boundaries`
    cell[0] = int((counts > 0).to(torch.uint8).argmax())  # the first non-empty one
    return reached, cell, targets


def _cell_edges() -> Float[Tensor, " edges"]:
    """Edges of the cells: 0, equal steps of log-odds, 1. On the CPU, so that all processes agree."""
    log_odds = torch.linspace(
        -_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS, NUM_CELLS - 1, dtype=torch.float64, device="cpu"
    )
    inner = log_odds.sigmoid().cummax(dim=0).values  # rounding near one must not unsort them
    return torch.cat([inner.new_zeros(1), inner, inner.new_ones(1)])
