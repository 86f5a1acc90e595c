"""The band of a smooth reliability curve."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.evaluation import smooth_consistency_band
from calibrant.metrics import smooth_reliability_curve
from calibrant.reports import smooth_diagram


def test_band_has_the_width_of_binomial_noise() -> None:
    """Of one stated probability p the curve is the mean outcome: its spread is sqrt(p (1 - p) / N)."""
    band = smooth_consistency_band(np.full(400, 0.3), bandwidth=0.05, num_points=11, num_draws=600)
    half = 1.96 * np.sqrt(0.3 * 0.7 / 400)
    assert np.allclose(np.subtract(band.high, band.low) / 2, half, rtol=0.08)  # quantiles of 600 draws
    assert np.allclose(band.positions, 0.3, atol=1e-6)


def test_calibrated_curves_lie_in_the_band_and_others_do_not() -> None:
    """About 95 % of the positions for outcomes drawn from the probabilities; far fewer for distorted ones."""
    rng = np.random.default_rng(0)
    probs = rng.uniform(size=3000)

    def share_inside(truth: np.ndarray) -> float:
        curve = smooth_reliability_curve(probs, (rng.random(3000) < truth).astype(int), num_points=101)
        band = smooth_consistency_band(probs, bandwidth=curve.bandwidth, num_draws=60)
        found = np.array(curve.outcome, dtype=float)
        return float(np.mean((found >= band.low) & (found <= band.high)))

    assert np.mean([share_inside(probs) for _ in range(4)]) > 0.8
    assert share_inside(probs**2) < 0.3


def test_top_labels_and_weights() -> None:
    """Classes give their largest probability; a weight of zero removes a sample."""
    probs = np.array([[0.7, 0.3], [0.1, 0.9], [0.5, 0.5]] * 50)
    weights = np.array([1.0, 1.0, 0.0] * 50)
    band = smooth_consistency_band(probs, bandwidth=0.02, weights=weights)
    assert min(band.positions) == pytest.approx(0.7, abs=0.01)
    assert smooth_diagram(
        smooth_reliability_curve(probs.max(axis=1), np.ones(150, dtype=int)), band=band
    ).get_legend()
