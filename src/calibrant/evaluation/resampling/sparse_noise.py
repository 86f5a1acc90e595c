"""Noisy errors with whole event counts if few are expected, where a normal approximation fails."""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit
from calibrant.evaluation.resampling.event_cells import ResidualSums
from calibrant.evaluation.resampling.events import Indices, Matrix, Vector

Single: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

FEW = 5.0  # events
MOST_COUNTED = 48  # of them
MOST_EXPECTED = 24.0  # beyond which there are not few


class SparseNoise:
    """Bins with few expected events, or few expected non-events, and the counts drawn there.

    A draw is kept as the uniform number that gives its count under calibration. So counts change steadily
    with the gaps, and without gaps the draws are unchanged.
    """

    def __init__(self, cells: ResidualSums, noise: Matrix, seed: int) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = cells.squares / cells.mass  # average contribution of an event
            trials = cells.mass / unit
            stated = (1 - cells.tilt / cells.squares) / 2
        rare = np.minimum(stated, 1 - stated)
        few = np.flatnonzero((trials * rare < FEW) & (cells.mass > 0)) if cells.bins_alone else np.arange(0)
        self._places, self._cells, self._noise = few, cells, noise
        self._extra_by_cell = np.empty((0, 0), np.float32)
        self._side = np.where(stated[few] > 0.5, -1.0, 1.0)
        self._trials, self._rare = np.rint(trials[few]), rare[few]
        self._units = unit[few] * self._side
        self._usual = self._units * self._rare * self._trials
        rng = np.random.default_rng((seed, 1))
        counts = noise[:, few] / self._units + self._rare * trials[few]
        drawn = (counts + 0.5).astype(np.int64).clip(0, MOST_COUNTED - 1)
        tables, columns = binomial_tables(self._trials, self._rare), np.arange(len(few))
        high = tables[columns, drawn]
        low = np.where(drawn > 0, tables[columns, drawn - 1], np.float32(0.0))
        uniform = high - rng.random(counts.shape, dtype=np.float32) * (high - low)
        self._uniform = uniform.astype(np.float32, copy=False)  # ``(R, M)``: the tables turn them into counts

    def counted(self, gaps: Vector) -> Mask:
        """Mask ``(M,)`` of cells where few events are expected with these gaps too."""
        counted = np.zeros(self._cells.num_cells, bool)
        counted[self._places] = self._rates(gaps) * self._trials <= MOST_EXPECTED
        return counted

    def _rates(self, gaps: Vector) -> Vector:
        return np.clip(self._rare + self._side * gaps[self._places], 0.0, 1.0)

    def errors(self, gaps: Vector, shrink: Vector, extra: Single, more: Vector) -> Vector:
        """Errors ``(R,)`` with these gaps: of the noise times factors, plus more noise ``(R, M)``."""
        if self._cells.per_size is None:
            return self._cells.error(self.sums(gaps, shrink, extra, more))
        return self._add(gaps, shrink, extra, more, np.empty((0, 0))) * self._cells.per_size

    def sums(self, gaps: Vector, shrink: Vector, extra: Single, more: Vector) -> Matrix:
        """Residual sums ``(R, M)`` with these gaps; from event counts if few are expected."""
        sums = np.empty(self._by_cell[0].shape)
        self._add(gaps, shrink, extra, more, sums)
        return np.ascontiguousarray(sums.T)

    def _add(self, gaps: Vector, shrink: Vector, extra: Single, more: Vector, sums: Matrix) -> Vector:
        """Summed sizes ``(R,)`` of the residual sums, which also go into ``sums`` ``(M, R)`` unless empty."""
        noise, uniform, place = self._by_cell
        if len(extra) and self._extra_by_cell.shape != noise.shape:
            self._extra_by_cell = np.ascontiguousarray(extra.T)
        tables = binomial_tables(self._trials, self._rates(gaps))
        drawn, sizes = np.empty(noise.shape[1]), np.zeros(noise.shape[1])
        moved, counted = (shrink, self._extra_by_cell, more, self._cells.sums(gaps)), self.counted(gaps)
        of_few = place, uniform, tables, self._units, self._usual
        _add_cells(noise, *moved, counted, *of_few, drawn, sizes, sums)
        return sizes

    @cached_property
    def _by_cell(self) -> tuple[Matrix, Single, Indices]:
        """Noise and uniform numbers cell by cell, and the index of each cell among those of few events."""
        place = np.zeros(self._cells.num_cells, np.int64)
        place[self._places] = np.arange(len(self._places))
        return np.ascontiguousarray(self._noise.T), np.ascontiguousarray(self._uniform.T), place


@njit
def _add_cells(
    noise: Matrix,
    shrink: Vector,
    extra: Single,
    more: Vector,
    expected: Vector,
    counted: Mask,
    place: Indices,
    uniform: Single,
    tables: Single,
    units: Vector,
    usual: Vector,
    drawn: Vector,
    sizes: Vector,
    sums: Matrix,
) -> None:
    """Residual sums from arrays ``(M, R)``; where few events are expected, drawn counts times units."""
    num_cells, num_draws = noise.shape
    for m in range(num_cells):
        if counted[m]:
            j = place[m]
            drawn[:] = 0.0
            for k in range(MOST_COUNTED - 1):
                bound = tables[j, k]
                if bound >= 1.0:
                    break
                for r in range(num_draws):
                    drawn[r] += 1.0 if uniform[j, r] > bound else 0.0
            for r in range(num_draws):
                drawn[r] = units[j] * drawn[r] - usual[j]
        else:
            for r in range(num_draws):
                drawn[r] = expected[m] + shrink[m] * noise[m, r]
            if more[m] > 0.0:
                for r in range(num_draws):
                    drawn[r] += more[m] * extra[m, r]
        for r in range(num_draws):
            sizes[r] += abs(drawn[r])
        if len(sums) > 0:
            sums[m] = drawn


def binomial_tables(trials: Vector, rates: Vector) -> Single:
    """The probabilities ``(M, MOST_COUNTED)`` of at most 0, 1, ... events in N trials."""
    tables = np.ones((len(trials), MOST_COUNTED), np.float32)
    _fill_binomial(trials, rates, tables)
    return tables


@njit
def _fill_binomial(trials: Vector, rates: Vector, tables: Single) -> None:
    for m in range(len(trials)):
        n, q = trials[m], rates[m]
        if q >= 1.0:
            for k in range(MOST_COUNTED):
                tables[m, k] = 0.0 if k < n else 1.0
            continue
        odds = q / (1.0 - q)
        term = (1.0 - q) ** n
        total = term
        for k in range(MOST_COUNTED):
            if total > 1.0 - 1e-7 or k >= n:
                break
            tables[m, k] = total
            term *= odds * (n - k) / (k + 1.0)
            total += term
