"""Gathering scores in cells hardly moves the smooth calibration error."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant._math.lipschitz import lipschitz_values
from calibrant.evaluation.resampling.event_cells import MOST_POINTS, NUM_CELLS, ScoreCells


def test_few_scores_stand_for_themselves(rng) -> None:
    """Up to 2048 different scores, nothing is gathered, ties apart."""
    scores = rng.choice(rng.random(MOST_POINTS), 9000)
    cells = ScoreCells.of(scores)
    assert np.array_equal(cells.points[cells.index], scores)
    assert np.all(np.diff(cells.points) > 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_many_scores_move_the_error_less_than_they_move(rng, weighted) -> None:
    """The error changes by at most the mean of |residual| times the distance moved; sums are kept."""
    scores = np.append(rng.beta(0.3, 2.0, 20000), [0.0, 1.0])
    weights = rng.integers(0, 3, len(scores)).astype(float) if weighted else np.ones(len(scores))
    residuals = weights * ((rng.random(len(scores)) < scores**0.9) - scores)
    cells = ScoreCells.of(scores, weights if weighted else None)
    moved = np.abs(cells.points[cells.index] - scores)
    assert len(cells.points) <= NUM_CELLS
    assert moved.max() <= 1 / NUM_CELLS
    gathered = cells.matrix @ residuals
    assert gathered.sum() == pytest.approx(residuals.sum(), abs=1e-9)
    order = np.argsort(scores)
    exact = lipschitz_values(scores[order], residuals[order][None])[0]
    assert abs(lipschitz_values(cells.points, gathered[None])[0] - exact) <= np.abs(residuals) @ moved + 1e-9


def test_cells_of_weight_zero_have_a_place() -> None:
    """A cell whose samples all weigh nothing lies at their plain mean, not at NaN."""
    scores = np.linspace(0, 1, 5000)
    weights = np.where(scores < 0.5, 0.0, 1.0)
    cells = ScoreCells.of(scores, weights)
    assert np.all(np.isfinite(cells.points))
    assert np.all(np.diff(cells.points) > 0)
