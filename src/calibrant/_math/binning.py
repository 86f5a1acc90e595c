"""Bins of equal width or mass and those of the original adaptive error, with their sums.

Every sum is float64. An outcome is 1 where what the confidence speaks of came true, else 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import NEAR_EDGE, row_slices
from calibrant._math.errors import InputError
from calibrant._math.large_tables import LARGE_COLUMN, is_large, large_width_sums
from calibrant._math.shapes import Float, Int, Shaped
from calibrant._math.sorting import ascending_order, sort_kind

Binning: TypeAlias = Literal["width", "mass", "mukhoti"]
Norm: TypeAlias = Literal["l1", "l2", "max"]

# Rounding in a cumulative sum of weights must not push a boundary past the sample that reaches it.
REACHED = 1.0 - 1e-12
# Below this share of the squared weight of a bin, its pairs of different samples are rounding errors.
_NO_PAIRS = 1e-12
_ROUNDING = 1e-14

NUM_CELLS = 2**14  # of the sketch
_LARGEST_LOG_ODDS = 36.0  # beyond, float64 has two probabilities below one left


@dataclass(frozen=True)
class BinSums:
    edges: Float[Tensor, "... edges"]
    counts: Float[Tensor, "*columns B"]
    confidences: Float[Tensor, "*columns B"]
    outcomes: Float[Tensor, "*columns B"]
    total: float  # weight of all samples, including any in no bin (the minimum in the original adaptive bins)

    def calibration_error(self, norm: Norm) -> Float[Tensor, "*columns"]:
        """Distance between mean confidence and mean outcome over the bins; empty bins count as zero."""
        gaps = (self.confidences - self.outcomes).abs()  # times the weight of the bin
        if norm == "l1":
            return gaps.sum(dim=-1) / self.total
        filled = self.counts > 0
        means = torch.where(filled, gaps / self.counts.where(filled, 1.0), 0.0)
        if norm == "max":
            return means.amax(dim=-1)
        return ((gaps * means).sum(dim=-1) / self.total).sqrt()

    def excess_error(self, sign: Literal[1, -1]) -> Float[Tensor, "*columns"]:
        """Error from bins whose confidence exceeds the outcomes (``sign=-1``: falls short of them)."""
        return (sign * (self.confidences - self.outcomes)).clamp(min=0).sum(dim=-1) / self.total


def width_edges(num_bins: int, *, device: torch.device | None = None) -> Float[Tensor, " {num_bins}+1"]:
    return torch.arange(num_bins + 1, dtype=torch.float64, device=device) / num_bins


def bin_of_scaled(scaled: Float[Tensor, "*shape"], num_bins: int) -> Float[Tensor, "*shape"]:
    """Bin (i, i+1], the first closed at 0, of each confidence times ``num_bins``; in place."""
    return scaled.ceil_().sub_(1).clamp_(0, num_bins - 1)


def width_bin_index(confidences: Float[Tensor, "*shape"], num_bins: int) -> Int[Tensor, "*shape"]:
    """Bin of each confidence: (i/B, (i+1)/B], the first closed at 0."""
    flat = confidences.reshape(-1)
    index = torch.empty(flat.shape, dtype=torch.int64, device=flat.device)
    for part in row_slices(flat):
        values = flat[part].to(torch.float64)
        scaled = values * num_bins
        found = index[part].copy_(bin_of_scaled(scaled.clone(), num_bins))
        # If rounding could put a value on the wrong side, compare it with the edges.
        near = scaled.sub_(scaled.round()).abs_() < NEAR_EDGE * num_bins
        if bool(near.any()):
            inner = width_edges(num_bins, device=flat.device)[1:-1]
            found[near] = torch.searchsorted(inner, values[near])
    return index.reshape(confidences.shape)


def bin_sums(
    index: Int[Tensor, " N"],
    num_bins: int,
    confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"], Float[Tensor, " B"]]:
    confidences = confidences.to(torch.float64)
    outcomes = outcomes.to(torch.float64)
    if weights is not None:
        confidences, outcomes = confidences * weights, outcomes * weights
    counts, confidence, outcome = (
        _histogram(index, values, num_bins).to(torch.float64)  # integers where there is no sample
        for values in (weights, confidences, outcomes)
    )
    return counts, confidence, outcome


def binned(
    confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    *,
    num_bins: int,
    binning: Binning,
    weights: Float[Tensor, " N"] | None = None,
) -> BinSums:
    if binning == "mass":
        return mass_bin_sums(confidences, outcomes, num_bins, weights)
    if binning == "mukhoti":
        return mukhoti_bin_sums(confidences, outcomes, num_bins, weights)
    edges, total = width_edges(num_bins, device=confidences.device), _total(confidences, weights)
    if is_large(confidences, LARGE_COLUMN):
        return BinSums(edges, *large_width_sums(confidences, outcomes, num_bins, weights), total=total)
    index = width_bin_index(confidences, num_bins)
    return BinSums(edges, *bin_sums(index, num_bins, confidences, outcomes, weights), total=total)


def mass_order(
    confidences: Float[Tensor, " N"], weights: Float[Tensor, " N"] | None = None
) -> Int[Tensor, " N"]:
    if confidences.device.type == "cpu":  # numpy sorts several times faster than torch does
        values = confidences.detach().to(torch.float64).numpy()
        if weights is None:
            return torch.from_numpy(ascending_order(values))
        return torch.from_numpy(np.lexsort((weights.numpy(), values)))
    if weights is None:
        return torch.argsort(confidences)
    order = torch.argsort(weights)
    return order[torch.argsort(confidences[order], stable=True)]


def mass_boundaries(
    num_samples: int, num_bins: int, sorted_weights: Float[Tensor, " N"] | None = None
) -> Int[Tensor, " {num_bins}+1"]:
    """Boundaries such that bin j holds the sorted samples boundaries[j] to boundaries[j + 1] - 1.

    Without weights, boundary j is ceil(j N / B): sizes differ by at most one. With weights, the first j bins
    end at the first sample whose cumulative weight reaches j / B of the total.
    """
    steps = torch.arange(num_bins + 1)
    if sorted_weights is None:
        return -(-steps * num_samples // num_bins)
    reached = sorted_weights.cumsum(dim=0)
    targets = steps.to(reached)[1:-1] / num_bins * reached[-1]
    inner = torch.searchsorted(reached, targets * REACHED) + 1
    ends = torch.tensor([0, num_samples], device=inner.device)
    return torch.cat([ends[:1], inner, ends[1:]])


def mass_bin_index(boundaries: Int[Tensor, " edges"], num_samples: int) -> Int[Tensor, " {num_samples}"]:
    positions = torch.arange(num_samples, device=boundaries.device)
    return torch.bucketize(positions, boundaries[1:-1], right=True)


def tied_means(
    sorted_confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    weights: Float[Tensor, " N"] | None = None,
) -> Float[Tensor, " N"]:
    """Outcomes, each replaced by the mean over the samples of the same confidence."""
    values, group = torch.unique_consecutive(sorted_confidences, return_inverse=True)
    if values.numel() == outcomes.numel():
        return outcomes
    counts, _, sums = bin_sums(group, values.numel(), sorted_confidences, outcomes, weights)
    return (sums / counts.where(counts > 0, 1.0))[group]


def mass_bin_sums(
    confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    num_bins: int,
    weights: Float[Tensor, " N"] | None = None,
) -> BinSums:
    """Bins of equal mass; equal confidences share their mean outcome, so row order is irrelevant."""
    if confidences.device.type == "cpu" and (weights is None or bool((weights == weights[0]).all())):
        share = 1.0 if weights is None else float(weights[0])
        return _mass_sums_by_sorting(confidences, outcomes, num_bins, share)
    order = mass_order(confidences, weights)
    ranked = confidences.to(torch.float64)[order]
    ranked_weights = None if weights is None else weights[order]
    means = tied_means(ranked, outcomes.to(torch.float64)[order], ranked_weights)
    boundaries = mass_boundaries(len(ranked), num_bins, ranked_weights).to(ranked.device)
    index = mass_bin_index(boundaries, len(ranked))
    last = (boundaries - 1).clamp_(min=0)  # the lower edge of the first bin is the minimum
    return BinSums(
        ranked[last], *bin_sums(index, num_bins, ranked, means, ranked_weights), total=_total(ranked, weights)
    )


def _mass_sums_by_sorting(
    confidences: Float[Tensor, " N"], outcomes: Shaped[Tensor, " N"], num_bins: int, share: float
) -> BinSums:
    """:func:`mass_bin_sums` for equal weights, several times faster: it sorts values, not positions."""
    values = confidences.detach().to(torch.float64).numpy()
    kind = sort_kind(values)
    ranked, happened = np.sort(values, kind=kind), np.sort(values[outcomes.numpy() == 1], kind=kind)
    boundaries = mass_boundaries(len(ranked), num_bins).numpy()
    inner, counts = boundaries[1:-1], np.diff(boundaries)
    # A boundary that divides a tie takes the same share of the tie's outcomes.
    first_above = ranked[inner.clip(max=len(ranked) - 1)]
    start, stop = (np.searchsorted(ranked, first_above, side) for side in ("left", "right"))
    low, high = (np.searchsorted(happened, first_above, side) for side in ("left", "right"))
    below = low + (high - low) * ((inner - start) / (stop - start))
    sums = np.zeros(num_bins)
    sums[counts > 0] = np.add.reduceat(ranked, boundaries[:-1][counts > 0])
    return BinSums(
        torch.from_numpy(ranked[(boundaries - 1).clip(min=0)]),  # the first edge is the minimum
        torch.from_numpy(share * counts),
        torch.from_numpy(share * sums),
        torch.from_numpy(share * np.diff(below, prepend=0.0, append=float(len(happened)))),
        total=share * len(ranked),
    )


def mukhoti_edges(confidences: Float[Tensor, " N"], num_bins: int) -> Float[Tensor, " {num_bins}+1"]:
    """Interpolated quantiles as in the code of Mukhoti et al. (2020), on the scale 0..N of their ranks."""
    ranked = np.sort(confidences.detach().to("cpu", torch.float64).numpy())
    positions = np.linspace(0, len(ranked), num_bins + 1)
    return torch.from_numpy(np.interp(positions, np.arange(len(ranked)), ranked)).to(confidences.device)


def mukhoti_bin_sums(
    confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    num_bins: int,
    weights: Float[Tensor, " N"] | None = None,
) -> BinSums:
    """Bins (e_j, e_{j+1}] between interpolated quantiles; the first is open, so the minimum is dropped."""
    if weights is not None:
        raise InputError(
            '`weights` must be left out with binning="mukhoti", which has no place for them; '
            f'got {len(weights)} weights; use binning="mass".'
        )
    edges = mukhoti_edges(confidences, num_bins)
    values = confidences.to(torch.float64).contiguous()
    kept = values > edges[0]
    # No value lies between equal edges: searchsorted finds the first, whose bin ends there.
    index = torch.searchsorted(edges, values[kept]) - 1
    return BinSums(edges, *bin_sums(index, num_bins, values[kept], outcomes[kept]), total=float(len(values)))


def width_column_sums(
    probs: Float[Tensor, "N C"],
    labels: Int[Tensor, " N"] | Int[Tensor, "N C"],
    num_bins: int,
    weights: Float[Tensor, " N"] | None = None,
) -> BinSums:
    edges, total = width_edges(num_bins, device=probs.device), _total(probs, weights)
    if is_large(probs):
        return BinSums(edges, *large_width_sums(probs, labels, num_bins, weights), total=total)
    num_classes = probs.shape[1]
    size = num_classes * num_bins
    first_bin = torch.arange(num_classes, device=probs.device) * num_bins
    counts, confidences, outcomes = torch.zeros((3, size), dtype=torch.float64, device=probs.device)
    for rows in row_slices(probs):
        chunk, target = probs[rows].to(torch.float64), labels[rows]
        index = width_bin_index(chunk, num_bins) + first_bin  # (rows, C)
        share = None if weights is None else weights[rows, None].expand_as(chunk)
        if share is not None:
            chunk = chunk * share
        counts += _histogram(index, share, size)
        confidences += _histogram(index, chunk, size)
        if target.ndim == 1:  # one outcome of each row is 1
            index = index.gather(1, target[:, None])
            outcomes += _histogram(index, None if share is None else share[:, :1], size)
        else:
            outcomes += _histogram(index, target if share is None else target * share, size)
    return BinSums(
        edges, *(sums.reshape(num_classes, num_bins) for sums in (counts, confidences, outcomes)), total=total
    )


def _histogram(index: Tensor, weights: Tensor | None, size: int) -> Tensor:
    return torch.bincount(index.reshape(-1), None if weights is None else weights.reshape(-1), minlength=size)


def _total(confidences: Tensor, weights: Tensor | None) -> float:
    return float(len(confidences)) if weights is None else float(weights.sum())


class SparseColumnSums:
    """Sums of :func:`calibrant._math.binning.width_column_sums`, accumulated block by block.

    With B bins, fewer than B probabilities of a row exceed 1 / B, because a row sums to one.

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
        counts = self._counts.clone()
        lowest = (self._total - counts[:, 1:].sum(dim=1)).clamp(min=0.0)
        counts[:, 0] = torch.where(self._above < self._rows, lowest, 0.0)
        return BinSums(self._edges, counts, self._confidences, self._outcomes, total=self._total)


@dataclass(frozen=True)
class PairSums:
    r"""Per-bin sums for the mean over all pairs of different samples.

    The residuals :math:`r_i = c_i - y_i` of a bin, of weights :math:`w_i`, have the mean

    .. math:: g = \frac{\sum_i w_i r_i}{\sum_i w_i} , \qquad
              U = \frac{\sum_{i \ne j} w_i w_j r_i r_j}{\sum_{i \ne j} w_i w_j}
                = \frac{(\sum_i w_i r_i)^2 - \sum_i w_i^2 r_i^2}{(\sum_i w_i)^2 - \sum_i w_i^2} .

    The square of g is too large by the variance of g. U omits the products of a residual with itself.
    As samples are independent, U is unbiased for the squared expected residual, and :math:`g^2 - U` for the
    variance of g.
    """

    masses: Float[Tensor, " B"]  # of weights
    residuals: Float[Tensor, " B"]  # of weighted residuals
    squared_masses: Float[Tensor, " B"]  # of squares of weights
    squared_residuals: Float[Tensor, " B"]  # of squares of weighted residuals

    def squared_error(self) -> Float[Tensor, ""]:
        """Weighted mean of U over the bins, possibly negative; bins without a pair of samples count zero."""
        shares = self.masses / self.masses.sum()
        error = shares @ self._mean_products(self.residuals.square() - self.squared_residuals)
        # The root of a rounding error would be far from zero.
        rounding = _ROUNDING * (
            shares @ self._mean_products(self.residuals.square() + self.squared_residuals)
        )
        return error.where(error.abs() > rounding, 0.0)

    def absolute_error(self) -> Float[Tensor, ""]:
        """Mean over the bins of the size of g, minus the size expected from noise of its variance."""
        products = self._mean_products(self.residuals.square() - self.squared_residuals)
        size = (self.residuals / self.masses.where(self.masses > 0, 1.0)).abs()
        noise = (size.square() - products).clamp(min=0).sqrt()
        noisy = noise > 0
        ratio = size / noise.where(noisy, 1.0)
        # The mean size of a normal variable of this mean and deviation.
        folded = noise * math.sqrt(2 / math.pi) * (-ratio.square() / 2).exp()
        folded = folded + size * (ratio / math.sqrt(2)).erf()
        debiased = torch.where(noisy, 2 * size - folded, size).where(self._has_pairs(), 0.0)
        return (self.masses * debiased).sum() / self.masses.sum()

    def _has_pairs(self) -> Tensor:
        return self._pairs() > _NO_PAIRS * self.masses.square()

    def _pairs(self) -> Float[Tensor, " B"]:
        return self.masses.square() - self.squared_masses

    def _mean_products(self, products: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
        some = self._has_pairs()
        return (products / self._pairs().where(some, 1.0)).where(some, 0.0)


def pair_sums(
    confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    *,
    num_bins: int,
    binning: Literal["width", "mass"],
    weights: Float[Tensor, " N"] | None = None,
) -> PairSums:
    confidences, outcomes = confidences.to(torch.float64), outcomes.to(torch.float64)
    if binning == "mass":
        return _mass_pair_sums(confidences, outcomes, num_bins, weights)
    index = width_bin_index(confidences, num_bins)
    masses = torch.ones_like(confidences) if weights is None else weights
    return PairSums(*_sums(index, num_bins, masses, masses * (confidences - outcomes)))


def _mass_pair_sums(
    confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    num_bins: int,
    weights: Float[Tensor, " N"] | None,
) -> PairSums:
    """Pair sums when an edge splits equal confidences: each sample counts by its share in a bin."""
    order = mass_order(confidences, weights)
    ranked = confidences[order]
    masses = torch.ones_like(ranked) if weights is None else weights[order]
    boundaries = mass_boundaries(len(ranked), num_bins, None if weights is None else masses)
    index = mass_bin_index(boundaries.to(ranked.device), len(ranked))
    tie = torch.unique_consecutive(ranked, return_inverse=True)[1]
    ties = int(tie[-1]) + 1
    whole = _sums(tie, ties, masses, masses * (ranked - outcomes[order]))
    # A segment is the part of one tie in one bin.
    starts = torch.ones_like(tie, dtype=torch.bool)
    starts[1:] = (tie.diff() > 0) | (index.diff() > 0)
    tie_of, bin_of = tie[starts], index[starts]
    parts = torch.bincount(starts.cumsum(dim=0) - 1, masses, minlength=len(tie_of))
    fraction = parts / whole[0][tie_of].where(whole[0][tie_of] > 0, 1.0)
    scaled = (
        total[tie_of] * scale
        for total, scale in zip(whole, (fraction, fraction, fraction**2, fraction**2), strict=True)
    )
    return PairSums(*(torch.bincount(bin_of, part, minlength=num_bins) for part in scaled))


def _sums(index: Int[Tensor, " N"], size: int, masses: Tensor, residuals: Tensor) -> tuple[Tensor, ...]:
    values = (masses, residuals, masses.square(), residuals.square())
    return tuple(torch.bincount(index, value, minlength=size) for value in values)


def sketch_sums(
    confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"], Float[Tensor, " M"]]:
    """Sums of cells of equal width in log-odds, which add up over batches and processes.

    Equal-mass bins take every confidence; a boundary between two that falls inside a cell splits it in
    proportion. Confidences of networks crowd against one, where equal widths would not tell them apart.
    """
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
    r"""Bound on the difference between the l1 error of ``sketch_bins`` and the exact one.

    Let :math:`R(u)` be the sum of confidence minus outcome over the sorted samples up to weight u. The error
    is :math:`\sum_j |R(e_{j+1}) - R(e_j)| / W`, and the sketch knows R at the ends of the cells. In a cell of
    weight w and width h, let outcomes of weight s be 1. The sum of the outcomes leaves the straight line by
    at most :math:`s (w - s) / w` (all ones first, or last), and that of the confidences by at most
    :math:`h w / 4`. The exact rule ends its bins at whole samples, somewhere in the same cell, which moves
    the line by at most the cell's residual :math:`|r|`. Every inner boundary belongs to two bins, so

    .. math:: |\mathrm{sketch} - \mathrm{exact}| \le \frac2W \sum_{j=1}^{B-1}
              \Big( \frac{s (w - s)}{w} + \frac{h w}{4} + |r| \Big)_{\text{cell of boundary } j} .
    """
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
