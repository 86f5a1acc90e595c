"""Noise where few events are expected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from calibrant.evaluation.resampling.event_cells import BinnedEvents, ResidualSums
from calibrant.evaluation.resampling.events import Events, Matrix, Vector
from calibrant.evaluation.resampling.null import draw_null
from calibrant.evaluation.resampling.sparse_noise import SparseNoise


def few(num_draws: int) -> tuple[ResidualSums, Matrix]:
    """Two bins that expect 0.6 and 1.2 events, one that expects one that is none, and one of many."""
    stated = np.repeat([0.03, 0.12, 0.95, 0.5], [20, 10, 20, 100])
    cells = BinnedEvents(Events(stated, np.zeros(150)), 10)
    drawn = draw_null(cells, 10, num_draws, (0,), num_kept=num_draws)
    return cells.cells("width l1"), np.ascontiguousarray(drawn.sums[:, cells.rows("width")])


def as_it_is(noise: Matrix) -> tuple[Vector, NDArray[np.float32], Vector]:
    """Noise that is neither shrunk nor enlarged."""
    return np.ones(noise.shape[1]), np.empty((0, 0), np.float32), np.zeros(noise.shape[1])


def test_without_gaps_the_draws_are_those_under_calibration() -> None:
    """Counts come back from their uniform numbers, in three bins of the four that hold anything."""
    cells, noise = few(50)
    sparse, gaps = SparseNoise(cells, noise, 0), np.zeros(10)
    assert sparse.counted(gaps).nonzero()[0].tolist() == [0, 1, 9]
    np.testing.assert_allclose(sparse.sums(gaps, *as_it_is(noise)), noise, atol=1e-12)


@pytest.mark.parametrize("gap", [-0.03, 0.1])
def test_gaps_draw_binomial_counts(gap) -> None:
    """Mean and variance of 20 trials with the gap, to four standard errors; at a rate of zero none."""
    cells, noise = few(4000)
    gaps = np.zeros(10)
    gaps[0] = gap
    sums = SparseNoise(cells, noise, 0).sums(gaps, *as_it_is(noise))
    counts, rate = 150 * sums[:, 0] + 0.6, 0.03 + gap
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)
    assert abs(counts.mean() - 20 * rate) <= 4 * np.sqrt(20 * rate * (1 - rate) / 4000) + 1e-9
    assert counts.var() == pytest.approx(20 * rate * (1 - rate), rel=0.1, abs=1e-9)


def test_added_up_at_once_errors_are_those_of_the_sums() -> None:
    """With counts, noise that is shrunk and noise that is enlarged."""
    cells, noise = few(50)
    gaps = np.full(10, 0.02)
    more, extra = np.linspace(0, 0.1, 10) * (np.arange(10) % 2), np.ones(noise.shape, np.float32)
    sparse = SparseNoise(cells, noise, 0)
    assert 0 < sparse.counted(gaps).sum() < 10
    found = sparse.errors(gaps, np.full(10, 0.7), extra, more)
    sums = sparse.sums(gaps, np.full(10, 0.7), extra, more)
    np.testing.assert_allclose(found, cells.error(sums), rtol=1e-12)
    unlike = SparseNoise(replace(cells, per_size=None), noise, 0).errors(gaps, np.full(10, 0.7), extra, more)
    np.testing.assert_allclose(found, unlike, rtol=1e-12)
