"""Null distribution of errors: a perfectly calibrated model of the same size.

Outcomes are drawn from the stated probabilities, again and again. The calibration error of a finite sample is
never zero, and these draws show its size from noise alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.evaluation.resampling.clustered_noise import EventSigns
from calibrant.evaluation.resampling.clusters import Clustered, signs
from calibrant.evaluation.resampling.event_cells import (
    BIN_KINDS,
    BinKind,
    BinnedEvents,
    Kernel,
    ResidualSums,
    joined,
)
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector
from calibrant.evaluation.resampling.resamples import SMALL_BLOCK, block_bounds
from calibrant.evaluation.result import NullError
from calibrant.evaluation.thresholds import draws_for

MOST_TOGETHER = 256  # events of one table; more are several groups, whose numbers add up


def group_starts(first_of_group: NDArray[np.bool_]) -> NDArray[np.int64]:
    """First places of groups of at most 256 ``(G + 1,)``, the end included."""
    num_events = len(first_of_group)
    starts = np.append(np.flatnonzero(first_of_group), num_events)
    pieces = -(-np.diff(starts) // MOST_TOGETHER)  # of each group
    place = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)  # within its group
    return np.append(np.repeat(starts[:-1], pieces) + MOST_TOGETHER * place, num_events)


class DrawnCounts:
    """Draws event counts of groups of ``probs`` ``(N,)``; ``starts`` ``(G + 1,)`` includes the end."""

    def __init__(self, probs: NDArray[np.float64], starts: NDArray[np.int64]) -> None:
        from calibrant.evaluation.resampling.kernels import fill_tables  # compiled

        self._starts, self.tables = starts, np.empty(len(probs) + len(starts) - 1)
        fill_tables(probs, starts, self.tables)

    def draw(self, rng: np.random.Generator, num_draws: int) -> Matrix:
        """Numbers ``(G, num_draws)``."""
        from calibrant.evaluation.resampling.kernels import GUIDE, draw_counts  # compiled

        # Single precision halves the time of drawing; it resolves probabilities to 6e-8.
        uniform = rng.random((len(self._starts) - 1, num_draws), dtype=np.float32)
        counts = np.empty(uniform.shape)
        draw_counts(uniform, self.tables, self._starts, np.empty(GUIDE, np.int64), counts)
        return counts


class DrawnSums:
    """Draws weighted sums of independent outcomes ``(N,)`` over groups that begin at ``starts`` ``(G,)``."""

    def __init__(self, probs: Vector, mass: Vector, starts: Indices) -> None:
        alike = np.append(True, np.diff(mass) != 0)  # within a group only equal weights are counted together
        alike[starts] = True
        pieces = group_starts(alike)
        self._counts, self._mass = DrawnCounts(probs, pieces), mass[pieces[:-1], None]
        self._places = np.searchsorted(pieces, starts)
        self.size = len(self._mass)

    def draw(self, rng: np.random.Generator, num_draws: int) -> Matrix:
        """Sums ``(G, num_draws)``."""
        sums = self._counts.draw(rng, num_draws)
        sums *= self._mass
        return sums if len(self._places) == self.size else np.add.reduceat(sums, self._places, axis=0)


ROUNDING = 1e-12  # an error that is equal but for rounding counts as at least as large
_FEWEST_DRAWS, MOST_SUMS = 400, 1 << 14  # draws are left out above this number of noisy sums


@dataclass(frozen=True)
class NullDraws:
    """Errors ``(R,)`` and outcomes of every bin ``(B, R)`` under calibration."""

    errors: dict[Kernel, Vector]  # over bins of equal width and of equal mass, and the smooth one
    outcomes: Matrix  # weighted sums, not yet divided by the weight of the bin
    outcomes_by_mass: Matrix  # the same in the bins of equal mass
    sums: Matrix  # residual sums ``(R', 2B + K)`` of the first draws, over the cells of `BinnedEvents`
    clustered: Mapping[BinKind, Clustered] | None = None  # cluster noise; None: independent samples


def fewest_draws(level: float) -> int:
    """Number of noise draws that the search for an interval needs: at least two beyond each end."""
    return max(_FEWEST_DRAWS, draws_for(level))


def num_noise(num_cells: int, num_draws: int, level: float) -> int:
    return min(num_draws, max(fewest_draws(level), MOST_SUMS // max(1, num_cells)))


def draw_null(cells: BinnedEvents, num_draws: int, seed: tuple[int, ...], *, num_kept: int = 0) -> NullDraws:
    """Draw every outcome from its stated probability, independently, ``num_draws`` times.

    Clustered samples have cluster noise. The residual sums of the first ``num_kept`` draws are kept.
    """
    num_bins = cells.num_bins
    rng = np.random.Generator(np.random.SFC64(seed))  # the fastest that numpy has
    expected, size, draw = _independent(cells)
    kernels: tuple[Kernel, ...] = ("width l1", "mass l1", "smooth")
    errors: dict[Kernel, Vector] = {kernel: np.empty(num_draws) for kernel in kernels}
    outcomes = np.empty((2 * num_bins, num_draws))
    kept = np.empty((min(num_kept, num_draws), len(expected)))
    codes = cells.events.clusters
    clustered = None if codes is None else EventSigns(cells, codes, seed, len(kept))
    for start, stop in block_bounds(num_draws, SMALL_BLOCK // size):
        residuals = draw(rng, stop - start)
        if clustered is not None:
            residuals = clustered.draw(residuals)
        outcomes[:, start:stop] = residuals[: 2 * num_bins]
        sums = np.ascontiguousarray(residuals.T) / cells.total
        for kernel, found in errors.items():
            found[start:stop] = cells.error(kernel)(sums[:, cells.rows(BIN_KINDS[kernel])])
        kept[start:stop] = sums[: max(0, len(kept) - start)]
    return NullDraws(
        errors=errors,
        outcomes=outcomes[:num_bins] + expected[:num_bins],
        outcomes_by_mass=outcomes[num_bins:] + expected[num_bins : 2 * num_bins],
        sums=kept,
        clustered=None if clustered is None else clustered.clustered(),
    )


def _independent(cells: BinnedEvents) -> tuple[Matrix, int, Callable[[np.random.Generator, int], Matrix]]:
    """Expected sums ``(M, 1)``, size of a draw, and a function that draws residual sums ``(M, r)``.

    Outcomes are drawn one by one; for rows that stand for many samples, normal sums of their variance.
    """
    stated, codes = cells.events.confidences, cells.events.clusters
    if cells.events.counted:
        spread = np.sqrt(cells.squares(cells.matrix) @ (stated * (1 - stated)))[:, None]
        size = max(len(spread), 0 if codes is None else int(codes.max()))
        expected: Matrix = (cells.matrix @ stated)[:, None]
        return expected, size, lambda rng, number: spread * rng.standard_normal((len(spread), number))
    expected, size, draw = grouped_draws(cells.events, cells.matrix, stated, 3)
    return expected, size, lambda rng, number: draw(rng, number) - expected


def grouped_draws(
    events: Events, matrix: Any, probs: Vector, places: int
) -> tuple[Matrix, int, Callable[[np.random.Generator, int], Matrix]]:
    """Expected sums ``(M, 1)``, size of a draw, and a function that draws sums ``(M, r)`` of outcomes.

    Outcomes occur with ``probs`` ``(N,)``. Most samples have entries at ``places`` rows of the sparse matrix
    ``(M, N)``; the number that occur is drawn for samples with equal entries.
    """
    order, starts = _alike(events, matrix, places)
    counts = DrawnCounts(probs[order], starts)
    grouped = matrix[:, order[starts[:-1]]].tocsr()
    expected = grouped @ np.add.reduceat(probs[order], starts[:-1])[:, None]
    return expected, len(starts) - 1, lambda rng, number: grouped @ counts.draw(rng, number)


def draw_values(
    events: Events,
    value: Callable[[Vector, Vector, Vector | None, int], float],
    num_bins: int,
    num_draws: int,
    seed: tuple[int, ...],
) -> Vector:
    """Any error ``(R,)`` of confidences, outcomes and weights, with outcomes drawn from the confidences.

    With clusters, outcomes are the confidences plus residuals with the drawn sign of their cluster.
    """
    rng = np.random.default_rng(seed)
    draws = (rng.random(len(events.confidences)) < events.confidences for _ in range(num_draws))
    if events.clusters is not None:
        codes, residuals = events.clusters, events.outcomes - events.confidences
        flips = (signs(rng, int(codes.max()) + 1, 1)[codes, 0] for _ in range(num_draws))
        draws = (events.confidences + flip * residuals for flip in flips)
    return np.array(
        [value(events.confidences, drawn.astype(np.float64), events.weights, num_bins) for drawn in draws]
    )


def _alike(events: Events, matrix: Any, places: int) -> tuple[Indices, Indices]:
    """Order of the samples, and starts of equal ones."""
    order = np.argsort(events.confidences, kind="stable")
    lengths = np.diff(matrix.indptr)[order]
    # A bin of each kind and a cell; ties that bins share have more, those without weight have fewer.
    simple = lengths == places
    same = simple[1:] & simple[:-1]
    for place in range(places):
        entries = np.minimum(matrix.indptr[:-1][order] + place, matrix.nnz - 1)
        for part in (matrix.indices, matrix.data):
            values = part[entries]
            same &= values[1:] == values[:-1]
    if events.weights is None:
        same |= np.diff(events.confidences[order]) == 0
    return order, group_starts(np.append(True, ~same))


def noise_of(
    places: Sequence[BinnedEvents], drawn: Sequence[NullDraws], kernel: Kernel
) -> tuple[ResidualSums, Matrix]:
    """Residual sums of an error of these events, and the draws ``(R', M)`` that were kept."""
    parts = [draws.sums[:, each.rows(BIN_KINDS[kernel])] for each, draws in zip(places, drawn, strict=True)]
    cells = joined([cells_of(each, draws, kernel) for each, draws in zip(places, drawn, strict=True)])
    return cells, np.ascontiguousarray(np.concatenate(parts, axis=1))


def cells_of(place: BinnedEvents, draws: NullDraws, kernel: Kernel) -> ResidualSums:
    cells = place.cells(kernel)
    return cells if draws.clustered is None else replace(cells, clustered=draws.clustered[BIN_KINDS[kernel]])


def null_error(metric: str, observed: float, draws: Vector, level: float) -> NullError:
    at_least = int((draws >= observed - ROUNDING).sum())
    return NullError(
        metric=metric,
        mean=float(draws.mean()),
        upper=float(np.quantile(draws, level)),
        p_value=(1 + at_least) / (1 + len(draws)),
        num_draws=len(draws),
    )
