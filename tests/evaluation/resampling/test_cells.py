"""Scores gathered in cells or fewer points: the smooth error is the same but for what noise hides."""

import numpy as np
import pytest

from calibrant._math.lipschitz import lipschitz_values
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.judging.at_limit import OutcomeErrors
from calibrant.evaluation.judging.noise import NUM_POINTS, coarse_smooth_noise
from calibrant.evaluation.resampling.event_cells import (
    MOST_POINTS,
    NUM_CELLS,
    BinnedEvents,
    ScoreCells,
    weights_by_place,
)
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.resampling.null import draw_null, noise_of


@pytest.mark.parametrize("weighted", [False, True])
def test_little_is_lost(weighted) -> None:
    """Gaps, masses and variances add up; the error moves by less than a fiftieth of the noise."""
    rng = np.random.default_rng(1)
    stated = np.sort(rng.beta(0.5, 0.4, size=3000))
    given = Events(
        stated,
        (rng.random(3000) < stated**1.2).astype(float),
        rng.exponential(size=3000) if weighted else None,
    )
    places = [BinnedEvents(given, 15)]
    drawn = [draw_null(places[0], 50, (0,), num_kept=50)]
    fine, noise = noise_of(places, drawn, "smooth")
    coarse, merged = coarse_smooth_noise(places, drawn)
    assert coarse.num_cells <= NUM_POINTS < fine.num_cells
    for name in ("gaps", "bin_mass"):
        np.testing.assert_allclose(getattr(coarse, name), getattr(fine, name), atol=1e-12)
    gaps = 0.1 * np.ones(15)
    assert coarse.variances(gaps).sum() == pytest.approx(fine.variances(gaps).sum(), rel=0.01)
    spread = fine.error(noise).std()
    assert coarse.observed == pytest.approx(fine.observed, abs=spread / 50)
    np.testing.assert_allclose(coarse.error(merged), fine.error(noise), atol=spread / 20)


def test_few_points_stay() -> None:
    stated = np.linspace(0.1, 0.9, NUM_POINTS)
    places = [BinnedEvents(Events(stated, (stated > 0.4).astype(float)), 15)]
    drawn = [draw_null(places[0], 5, (0,), num_kept=5)]
    np.testing.assert_array_equal(coarse_smooth_noise(places, drawn)[1], noise_of(places, drawn, "smooth")[1])


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
    gathered = weights_by_place(cells.index, len(cells.points), np.ones(len(cells.index))) @ residuals
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


def at_limit(stated: list[float], outcomes: list[float], limit: float, *, num_bins: int) -> np.ndarray:
    """The probabilities of a model at the limit, with the gaps found."""
    event = Events(np.array(stated), np.array(outcomes))
    procedure = Procedure(kind="binary", num_bins=num_bins, num_resamples=2, num_draws=2, level=0.95, seed=0)
    models = OutcomeErrors("width l1", [event], 0.0, procedure)
    return models.stated + models.at(limit, models.gaps())


def test_the_limit_is_reached_where_clipping_takes_from_the_gaps() -> None:
    """In one bin of 0.5 and 0.95 where all happens, 0.25 more on average takes 0.45 and 0.05."""
    assert at_limit([0.5, 0.95], [1.0, 1.0], 0.25, num_bins=1) == pytest.approx([0.95, 1.0], abs=1e-9)


def test_a_limit_out_of_reach_gives_the_most_there_is() -> None:
    stated, outcomes = [0.25, 0.25, 0.25, 0.25, 0.75, 0.75], [1.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    assert at_limit(stated, outcomes, 0.9, num_bins=2).tolist() == [0.25] * 4 + [1.0] * 2
