"""The study of the monitor looks at the monitor's own evidence."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.evaluation.monitoring.evidence import log_mean_wealth, over_starts
from papers.monitoring.measure import evidence_at_looks, samples_of_fixed_test
from papers.monitoring.settings import DEFAULT, Change


def test_evidence_at_the_end_of_a_window_is_the_monitors(rng) -> None:
    """At the last look of each window both are the same; between, only begun gamblers have bet."""
    bets = rng.normal(0, 0.1, (30, 4))
    of_windows = over_starts(log_mean_wealth(bets.reshape(6, 5, 4).sum(1)))
    np.testing.assert_allclose(evidence_at_looks(bets, 5)[4::5], of_windows, atol=1e-12)


def test_the_fixed_test_needs_so_many(rng) -> None:
    """Half of the score tests of that size reject."""
    change = Change(slope=0.8)
    size = round(samples_of_fixed_test(DEFAULT, change))
    log_odds = DEFAULT.spread * rng.normal(size=(1000, size))
    probs, truth = (1 / (1 + np.exp(-scale * log_odds)) for scale in (1.0, 0.8))
    score = (log_odds * ((rng.random(log_odds.shape) < truth) - probs)).sum(1)
    spread = np.sqrt((log_odds**2 * probs * (1 - probs)).sum(1))
    assert (np.abs(score) > 1.96 * spread).mean() == pytest.approx(0.5, abs=0.05)
