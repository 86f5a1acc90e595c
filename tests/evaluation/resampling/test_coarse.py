"""The smooth error over fewer points is the same but for what noise hides."""

import numpy as np
import pytest

from calibrant.evaluation.judging.noise import NUM_POINTS, coarse_smooth_noise
from calibrant.evaluation.resampling.event_cells import BinnedEvents
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
    drawn = [draw_null(places[0], 15, 50, (0,), num_kept=50)]
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
    """Where there are not more points, nothing changes."""
    stated = np.linspace(0.1, 0.9, NUM_POINTS)
    places = [BinnedEvents(Events(stated, (stated > 0.4).astype(float)), 15)]
    drawn = [draw_null(places[0], 15, 5, (0,), num_kept=5)]
    np.testing.assert_array_equal(coarse_smooth_noise(places, drawn)[1], noise_of(places, drawn, "smooth")[1])
