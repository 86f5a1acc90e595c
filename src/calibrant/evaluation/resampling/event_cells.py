"""Cells that sum the residuals of events: bins of equal width, bins of equal mass, cells of score.

A residual is the outcome (0 or 1) minus the stated probability. For fixed confidences, each calibration error
is a function of residual sums over bins or cells, so noise can be added to the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.binning import mass_boundaries, mass_order
from calibrant._math.sorting import ascending_order, distinct
from calibrant.evaluation.resampling.events import (
    Clustered,
    Events,
    Indices,
    Matrix,
    Vector,
    joined_clusters,
    width_bins,
)

NUM_CELLS = 256
MOST_POINTS = 2 * NUM_CELLS


@dataclass(frozen=True)
class ScoreCells:
    """Positions of the scores for the smooth calibration error of resamples and draws.

    Up to 512 different scores are kept. More are pooled in cells of width 1/256, each at its mean score. The
    functions of the smooth error are 1-Lipschitz, so this changes it by at most the mean of the absolute
    residual times the distance to the cell's mean. A cell has residuals of both signs, so for 3000 to 300 000
    samples the effect is less than a hundredth of the noise that resamples and draws measure.
    """

    points: NDArray[np.float64]  # ascending, ``(K,)``
    index: NDArray[np.int32]  # point of each sample, ``(N,)``

    @classmethod
    def of(cls, scores: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> ScoreCells:
        points, index = distinct(scores)
        if len(points) > MOST_POINTS:
            cell = np.minimum((points * NUM_CELLS).astype(np.int64), NUM_CELLS - 1)
            filled, place = np.unique(cell, return_inverse=True)
            index = place[index]
            counts = np.bincount(index, minlength=len(filled))
            mass = counts if weights is None else np.bincount(index, weights, len(filled))
            sums = np.bincount(index, scores if weights is None else weights * scores, len(filled))
            plain = np.bincount(index, scores, len(filled)) / counts  # for cells without weight
            points = np.divide(sums, mass, out=plain, where=mass > 0)
        return cls(points, index.astype(np.int32))


Kernel: TypeAlias = Literal[
    "width l1",
    "width l2",
    "width max",
    "width over",
    "width under",
    "mass l1",
    "smooth",
    "cumulative",
    "kernel",
]  # errors of events: their sums, and how they combine

BinKind: TypeAlias = Literal["width", "mass", "score"]
BIN_KINDS: dict[Kernel, BinKind] = {
    kernel: "width" if kernel.startswith("width") else "mass" if kernel == "mass l1" else "score"
    for kernel in get_args(Kernel)
}
CANCELLING: tuple[Kernel, ...] = ("width over", "width under", "smooth", "cumulative", "kernel")
"""Errors in which gaps of both signs can cancel, or those of one sign do not count."""


@dataclass(frozen=True, kw_only=True)
class ResidualSums:
    """The sums that determine one error, divided by the weight of all samples.

    An entry is the part of a bin that lies in one cell; the gap is constant in a bin. Except for score cells,
    bins are their own cells. The numbers of an entry are sums over its samples.
    """

    cell: Indices  # of each entry ``(E,)``
    bin: Indices
    mass: Vector
    residual: Vector
    variance: Vector  # of the residual sum under calibration: squared weights times c (1 - c)
    tilt: Vector  # its change per unit of gap: squared weights times 1 - 2c
    squares: Vector  # squared weights
    num_cells: int
    num_bins: int
    total_squares: float
    error: Callable[[Matrix], Vector]  # residual sums ``(R, M)`` to errors ``(R,)``
    per_size: float | None = None  # error per summed size of the residual sums, if it is a multiple
    cancels: bool = False  # whether gaps of both signs can cancel, or those of one sign do not count
    largest: bool = False  # whether the error is the largest gap of any bin
    clustered: Clustered | None = None  # cluster noise; None: independent samples

    @cached_property
    def bins_alone(self) -> bool:
        """True if each bin is its own cell."""
        return len(self.cell) == self.num_cells == self.num_bins

    def _by_cell(self, values: Vector) -> Vector:
        """Sums ``(M,)`` over the entries of each cell."""
        if self.bins_alone:
            return values
        return np.bincount(self.cell, values, self.num_cells).astype(np.float64)

    @cached_property
    def found(self) -> Vector:
        return np.bincount(self.cell, self.residual, self.num_cells).astype(np.float64)

    @cached_property
    def observed(self) -> float:
        return float(self.error(self.found[None])[0])

    @cached_property
    def gaps(self) -> Vector:
        """Actual minus predicted rate in each bin ``(F,)``."""
        mass = self.bin_mass
        sums = np.bincount(self.bin, self.residual, self.num_bins)
        return np.divide(sums, mass, out=np.zeros_like(sums), where=mass > 0)

    @cached_property
    def bin_mass(self) -> Vector:
        return np.bincount(self.bin, self.mass, self.num_bins).astype(np.float64)

    @cached_property
    def stated(self) -> Vector:
        """Mean probability of each bin ``(F,)``; one half if it is empty."""
        squares = np.bincount(self.bin, self.squares, self.num_bins)
        tilt = np.bincount(self.bin, self.tilt, self.num_bins)
        mean = np.divide(tilt, squares, out=np.zeros_like(squares), where=squares > 0)
        return np.clip((1 - mean) / 2, 0.0, 1.0)

    def error_of(self, gaps: Vector) -> float:
        """The error that gaps ``(F,)`` have without noise."""
        return float(self.error(self.sums(gaps)[None])[0])

    def possible(self, gaps: Vector) -> Vector:
        """Gaps clipped so that true probabilities stay within [0, 1]."""
        return np.clip(gaps, -self.stated, 1 - self.stated)

    def sums(self, gaps: Vector) -> Vector:
        return self._by_cell(self.mass * gaps[self.bin])

    def variances(self, gaps: Vector) -> Vector:
        """Variance of the residual sum of each cell ``(M,)`` under these gaps ``(F,)``."""
        spread = self._by_cell(self._spread(gaps))
        return np.maximum(spread - self.total_squares * self.sums(gaps) ** 2, 0.0)

    def bin_errors(self, gaps: Vector) -> Vector:
        """Standard error of the gap of each bin ``(F,)`` under these gaps; 0 if a bin is empty."""
        independent = self.independent_errors(gaps)
        if self.clustered is None:
            return independent
        return np.maximum(independent, self.clustered.bin_errors(gaps, self.bin_mass))

    def independent_errors(self, gaps: Vector) -> Vector:
        spread = np.bincount(self.bin, self._spread(gaps), self.num_bins)
        spread = np.maximum(spread - self.total_squares * (self.bin_mass * gaps) ** 2, 0.0)
        mass = self.bin_mass
        return np.divide(np.sqrt(spread), mass, out=np.zeros_like(mass), where=mass > 0)

    def _spread(self, gaps: Vector) -> Vector:
        """Squared weights times expected squared residual of each entry, at least the squared gap's."""
        gap = gaps[self.bin]
        return np.maximum(self.variance + gap * self.tilt, gap**2 * self.squares)


def joined(parts: Sequence[ResidualSums]) -> ResidualSums:
    """The cells of several events whose errors are averaged."""
    if len(parts) == 1:
        return parts[0]
    cells = np.cumsum([0, *(part.num_cells for part in parts)])
    bins = np.cumsum([0, *(part.num_bins for part in parts)])

    def error(sums: Matrix) -> Vector:
        each = [part.error(sums[:, a:b]) for part, a, b in zip(parts, cells[:-1], cells[1:], strict=True)]
        return np.mean(each, axis=0)

    values = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("mass", "residual", "variance", "tilt", "squares")
    }
    known = [part.clustered for part in parts if part.clustered is not None]
    return replace(
        parts[0],
        cell=np.concatenate([part.cell + start for part, start in zip(parts, cells[:-1], strict=True)]),
        bin=np.concatenate([part.bin + start for part, start in zip(parts, bins[:-1], strict=True)]),
        num_cells=int(cells[-1]),
        num_bins=int(bins[-1]),
        error=error,
        per_size=None if parts[0].per_size is None else parts[0].per_size / len(parts),
        clustered=joined_clusters(known) if known else None,
        **values,
    )


class BinnedEvents:
    """The bins and cells of some events, and the matrix that sums samples in them."""

    def __init__(self, events: Events, num_bins: int) -> None:
        self.events = events
        self.num_bins = num_bins
        self.scores = ScoreCells.of(events.confidences, events.weights)
        self.total = float(events.mass.sum()) or 1.0

    @cached_property
    def matrix(self) -> Any:
        """Sparse ``(2B + K, N)``: weighted sums over bins of equal width, of equal mass, cells of score."""
        from scipy.sparse import csc_array

        mass, score = _mass_matrix(self.events, self.num_bins), self.scores.index
        ends = mass.indptr + 2 * np.arange(len(score) + 1)  # a sample has one entry more of each other kind
        first, last = ends[:-1], ends[1:] - 1
        between = np.ones(ends[-1], np.bool_)
        between[first] = between[last] = False
        rows, weights = np.empty(len(between), np.int32), np.empty(len(between))
        rows[first] = width_bins(self.events.confidences, self.num_bins)
        rows[between], weights[between] = mass.indices + self.num_bins, mass.data
        rows[last] = score + 2 * self.num_bins
        weights[first] = weights[last] = self.events.mass
        return csc_array(
            (weights, rows, ends), shape=(2 * self.num_bins + len(self.scores.points), len(score))
        )

    def summed(self) -> Self:
        """Keep the sums, and forget the matrices, which are the largest arrays of all."""
        self._cells  # noqa: B018
        for name in ("matrix", "entries", "_pairs"):
            vars(self).pop(name, None)
        return self

    def rows(self, place: BinKind) -> slice:
        starts = {"width": 0, "mass": self.num_bins, "score": 2 * self.num_bins}
        stops = {"width": self.num_bins, "mass": 2 * self.num_bins, "score": None}
        return slice(starts[place], stops[place])

    def squares(self, matrix: Any) -> Any:
        """Squared weights of the samples; a row may stand for many."""
        if self.events.squares is None:
            return matrix.power(2)
        weights = self.events.mass
        return matrix.multiply(self.events.squares / np.where(weights > 0, weights, 1.0)).tocsr()

    def cells(self, kernel: Kernel) -> ResidualSums:
        return replace(
            self._cells[BIN_KINDS[kernel]],
            error=self.error(kernel),
            per_size=1.0 if kernel in {"width l1", "mass l1"} else None,
            cancels=kernel in CANCELLING,
            largest=kernel == "width max",
        )

    def error(self, kernel: Kernel) -> Callable[[Matrix], Vector]:
        """The errors ``(R,)`` of residual sums ``(R, M)`` over bins or cells, divided by the total weight."""
        return partial(_ERRORS[kernel], self)

    @cached_property
    def per_mass(self) -> Vector:
        """The inverse of the share of each bin of equal width, 0 if it is empty."""
        mass = self._cells["width"].mass
        return np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)

    @cached_property
    def entries(self) -> dict[BinKind, Any]:
        """The samples' weights in each entry of `ResidualSums`, sparse ``(E, N)``."""
        return {place: self._entries(place) for place in get_args(BinKind)}

    def _entries(self, place: BinKind) -> Any:
        if place != "score":
            return self.matrix[self.rows(place)]
        pairs, entry = self._pairs
        return weights_by_place(entry, len(pairs), self.events.mass)

    @cached_property
    def _pairs(self) -> tuple[Indices, Indices]:
        """The non-empty pairs of score cell and bin, and the pair of each sample."""
        width = width_bins(self.events.confidences, self.num_bins)
        return np.unique(self.scores.index.astype(np.int64) * self.num_bins + width, return_inverse=True)

    @cached_property
    def _cells(self) -> dict[BinKind, ResidualSums]:
        bins, pairs = np.arange(self.num_bins), self._pairs[0]
        places: dict[BinKind, tuple[Indices, Indices]] = {
            "width": (bins, bins),
            "mass": (bins, bins),
            "score": (pairs // self.num_bins, pairs % self.num_bins),
        }
        return {place: self._of(self._entries(place), *where) for place, where in places.items()}

    def _of(self, matrix: Any, cell: Indices, bins: Indices) -> ResidualSums:
        """Cells from the samples' weights in each entry ``(E, N)``."""
        stated, total = self.events.confidences, self.total
        squared = self.squares(matrix)
        return ResidualSums(
            cell=cell,
            bin=bins,
            mass=np.asarray(matrix.sum(axis=1)).ravel() / total,
            residual=matrix @ (self.events.outcomes - stated) / total,
            variance=squared @ (stated * (1 - stated)) / total**2,
            tilt=squared @ (1 - 2 * stated) / total**2,
            squares=np.asarray(squared.sum(axis=1)).ravel() / total**2,
            num_cells=int(cell.max()) + 1,
            num_bins=self.num_bins,
            total_squares=float(self.events.squared_mass.sum()) / total**2,
            error=self.error("width l1"),
        )


def weights_by_place(index: Indices | NDArray[np.int32], size: int, weights: Vector) -> Any:
    """Sparse ``(size, N)``: weighted sums over the samples of each index."""
    from scipy.sparse import csc_array

    ends = np.arange(len(index) + 1, dtype=index.dtype)
    return csc_array((weights, index, ends), shape=(size, len(index)))


def smooth_errors(points: Vector) -> Callable[[Matrix], Vector]:
    from calibrant._math.lipschitz import lipschitz_values  # compiled

    return lambda sums: lipschitz_values(points, np.ascontiguousarray(sums))


def _kernel(cells: BinnedEvents, sums: Matrix) -> Vector:
    from calibrant._math.kernel_smoothing import fixed_points

    return fixed_points(np.clip(cells.scores.points, 0.0, 1.0), sums)


_ERRORS: dict[Kernel, Callable[[BinnedEvents, Matrix], Vector]] = {
    "width l1": lambda _, sums: np.abs(sums).sum(axis=1),
    "mass l1": lambda _, sums: np.abs(sums).sum(axis=1),
    "width l2": lambda cells, sums: np.sqrt(sums**2 @ cells.per_mass),
    "width max": lambda cells, sums: (np.abs(sums) * cells.per_mass).max(axis=1),
    "width over": lambda _, sums: np.maximum(-sums, 0.0).sum(axis=1),
    "width under": lambda _, sums: np.maximum(sums, 0.0).sum(axis=1),
    "cumulative": lambda _, sums: np.abs(np.cumsum(sums, axis=1)).max(axis=1),
    "smooth": lambda cells, sums: smooth_errors(cells.scores.points)(sums),
    "kernel": _kernel,
}


def bin_matrix(events: Events, num_bins: int) -> Any:
    """Sparse ``(2 num_bins, N)``: sums over the bins of equal width, then over those of equal mass.

    Bins of equal mass are fixed, as the confidences are; ties at bin ends are shared out.
    """
    from scipy.sparse import vstack

    width = weights_by_place(width_bins(events.confidences, num_bins), num_bins, events.mass)
    return vstack([width, _mass_matrix(events, num_bins)], format="csr")


def _mass_matrix(events: Events, num_bins: int) -> Any:
    """Sparse ``(num_bins, N)``, by columns."""
    from scipy.sparse import csc_array

    weights, num_samples = events.mass, len(events.confidences)
    if events.weights is None and events.cells is None:
        edges, order = mass_boundaries(num_samples, num_bins).numpy(), ascending_order(events.confidences)
        inner = edges[(edges > 0) & (edges < num_samples)]
        if (
            events.confidences[order[inner - 1]] < events.confidences[order[inner]]
        ).all():  # no tie is divided
            index = np.empty(num_samples, np.int32)
            index[order] = np.repeat(np.arange(num_bins, dtype=np.int32), np.diff(edges))
            return weights_by_place(index, num_bins, weights)
    points, tie = distinct(events.places)
    if events.cells is None:
        given = None if events.weights is None else torch.from_numpy(events.weights)
        order = mass_order(torch.from_numpy(events.confidences), given)
        boundaries = mass_boundaries(num_samples, num_bins, None if given is None else given[order])
        reached = np.append(0.0, np.cumsum(weights[order.numpy()]))
        ends, edges = reached[np.cumsum(np.bincount(tie))], reached[boundaries.numpy()]
    else:
        ends = np.cumsum(np.bincount(tie, weights))
        edges = np.arange(num_bins + 1) / num_bins * ends[-1]
        if events.numbers is not None and bool((events.numbers == weights).all()):  # bins of whole samples
            edges = mass_boundaries(round(ends[-1]), num_bins).numpy().astype(np.float64)
    cuts = np.unique(np.concatenate([ends, edges]))  # between two lies a part of one tie in one bin
    cuts, masses = cuts[1:], np.diff(cuts)
    of_tie, of_bin = np.searchsorted(ends, cuts), np.searchsorted(edges[1:], cuts)
    shares = masses / np.diff(ends, prepend=0.0)[of_tie]
    parts = csc_array((shares, (of_bin, of_tie)), shape=(num_bins, len(points)))
    found = parts @ weights_by_place(tie, len(points), weights)
    found.sort_indices()
    return found


def clustered_sums(cells: ResidualSums, noise: Matrix, gaps: Vector, extra: NDArray[np.float32]) -> Matrix:
    """Residual sums ``(R, M)`` with these gaps: the signs' sums of residuals less gaps.

    ``noise`` holds the sums without gaps; ``extra`` adds the missing variance of independent samples.
    """
    if cells.clustered is None:
        raise RuntimeError("these cells know of no clusters")
    less = cells.clustered.taken(gaps, cells.bin_mass)
    taken = cells.clustered.masses[: len(noise)] * less[cells.bin]
    if not cells.bins_alone:
        starts = np.flatnonzero(np.append(True, np.diff(cells.cell) != 0))
        taken = np.add.reduceat(taken, starts, axis=1)
    sums = noise - taken
    lacking = np.maximum(cells.variances(gaps) - np.einsum("rm,rm->m", sums, sums) / len(sums), 0.0)
    if (lacking > 0).any():
        sums += np.sqrt(lacking) * extra
    return sums + cells.sums(gaps)
