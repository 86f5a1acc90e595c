"""Noise where few events are expected: whole numbers of them, of which a normal curve says little."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit
from calibrant.evaluation.resampling.event_cells import Cells
from calibrant.evaluation.resampling.events import Matrix, Vector

FEW = 5.0  # events
MOST_COUNTED = 48  # of them
MOST_EXPECTED = 24.0  # beyond which there are not few


class SparseNoise:
    """The bins in which few events are expected, or few that are none, and the counts drawn there.

    A draw is kept as the uniform number that gives its count under calibration, so that gaps move counts
    steadily, and without gaps the draws are what they were.
    """

    def __init__(self, cells: Cells, noise: Matrix, seed: int) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = cells.squares / cells.mass  # what an event adds, on average
            trials = cells.mass / unit
            stated = (1 - cells.tilt / cells.squares) / 2
        rare = np.minimum(stated, 1 - stated)
        few = np.flatnonzero((trials * rare < FEW) & (cells.mass > 0)) if cells.bins_alone else np.arange(0)
        self._places, self._num_cells = few, cells.num_cells
        self._side = np.where(stated[few] > 0.5, -1.0, 1.0)
        self._trials, self._rare = np.rint(trials[few]), rare[few]
        self._units = unit[few] * self._side
        rng = np.random.default_rng((seed, 1))
        self._uniform = rng.random((len(noise), len(few)), dtype=np.float32)
        counts = noise[:, few] / self._units + self._rare * trials[few]
        into_uniform(counts, self._uniform, binomial_tables(self._trials, self._rare))

    def counted(self, gaps: Vector) -> NDArray[np.bool_]:
        """Where few events are expected with these gaps too ``(M,)``."""
        counted = np.zeros(self._num_cells, bool)
        counted[self._places] = self._rates(gaps) * self._trials <= MOST_EXPECTED
        return counted

    def _rates(self, gaps: Vector) -> Vector:
        return np.clip(self._rare + self._side * gaps[self._places], 0.0, 1.0)

    def add(self, sums: Matrix, gaps: Vector) -> None:
        """Set the residual sums ``(R, M)`` where few events are expected with these gaps."""
        if len(self._places):
            rates = self._rates(gaps)
            set_counts(
                sums,
                self._places,
                self._uniform,
                binomial_tables(self._trials, rates),
                self._units,
                self._units * self._rare * self._trials,
                rates * self._trials <= MOST_EXPECTED,
            )


def noisy_sums(
    noise: NDArray[np.float64],
    shrink: NDArray[np.float64],
    extra: NDArray[np.float32],
    more: NDArray[np.float64],
    expected: NDArray[np.float64],
    left_out: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """What is expected ``(M,)`` plus noise ``(R, M)`` times factors, plus more noise; some are left empty."""
    sums = np.empty(noise.shape)
    _add_noise(np.ascontiguousarray(noise), shrink, extra, more, expected, left_out, sums)
    return sums


@njit
def _add_noise(
    noise: NDArray[np.float64],
    shrink: NDArray[np.float64],
    extra: NDArray[np.float32],
    more: NDArray[np.float64],
    expected: NDArray[np.float64],
    left_out: NDArray[np.bool_],
    sums: NDArray[np.float64],
) -> None:
    for r in range(len(noise)):
        for m in range(noise.shape[1]):
            if not left_out[m]:
                sums[r, m] = expected[m] + shrink[m] * noise[r, m]
                if more[m] > 0.0:
                    sums[r, m] += more[m] * extra[r, m]


def binomial_tables(trials: NDArray[np.float64], rates: NDArray[np.float64]) -> NDArray[np.float32]:
    """The probabilities ``(M, MOST_COUNTED)`` of at most 0, 1, ... events in so many trials."""
    tables = np.ones((len(trials), MOST_COUNTED), np.float32)
    _fill_binomial(trials, rates, tables)
    return tables


@njit
def _fill_binomial(
    trials: NDArray[np.float64], rates: NDArray[np.float64], tables: NDArray[np.float32]
) -> None:
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


@njit
def set_counts(
    sums: NDArray[np.float64],
    places: NDArray[np.int64],
    uniform: NDArray[np.float32],
    tables: NDArray[np.float32],
    units: NDArray[np.float64],
    expected: NDArray[np.float64],
    few: NDArray[np.bool_],
) -> None:
    """Into the ``places`` of ``sums`` ``(R, M)``: drawn counts times units, less what is expected."""
    for r in range(len(sums)):
        for j in range(len(places)):
            if few[j]:
                u = uniform[r, j]
                k = int(u > tables[j, 0]) + int(u > tables[j, 1]) + int(u > tables[j, 2])  # no branches
                if k == 3:
                    while k < MOST_COUNTED - 1 and u > tables[j, k]:
                        k += 1
                sums[r, places[j]] = units[j] * k - expected[j]


def into_uniform(
    counts: NDArray[np.float64], uniform: NDArray[np.float32], tables: NDArray[np.float32]
) -> None:
    """Uniform numbers ``(R, M)`` made into those from which the tables give the counts."""
    _into_uniform(np.ascontiguousarray(counts), uniform, tables)


@njit
def _into_uniform(
    counts: NDArray[np.float64], uniform: NDArray[np.float32], tables: NDArray[np.float32]
) -> None:
    for r in range(len(counts)):
        for j in range(len(tables)):
            k = min(max(int(counts[r, j] + 0.5), 0), MOST_COUNTED - 1)
            low = tables[j, k - 1] if k > 0 else np.float32(0.0)
            uniform[r, j] = tables[j, k] - uniform[r, j] * (tables[j, k] - low)
