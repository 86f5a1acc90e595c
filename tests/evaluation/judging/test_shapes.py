"""Diagrams without bins: their numbers, their bands and intervals."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import metrics
from calibrant._math.isotonic import blocks_of_points
from calibrant.evaluation.judging import diagrams
from calibrant.evaluation.judging.diagrams import (
    MOST_POINTS,
    area_influences,
    consistency_band,
    selection,
    shapes_of,
)
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.resampling.kernels import isotonic_curves


def events(seed: int, num_samples: int, sharpness: float = 1.0, *, weighted: bool = False) -> Events:
    """Outcomes follow log-odds z; stated is ``sharpness`` times that."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=num_samples)
    outcomes = (rng.random(num_samples) < 1 / (1 + np.exp(-z))).astype(float)
    weights = rng.uniform(0, 2, num_samples) if weighted else None
    return Events(1 / (1 + np.exp(-sharpness * z)), outcomes, weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_influences_are_what_a_little_weight_does(weighted) -> None:
    """Moving weight onto one sample moves either area by its influence; influences average to zero."""
    event = events(0, 40, weighted=weighted)
    confidences, losses = np.round(event.confidences, 1), 1 - event.outcomes
    weights = np.ones(40) if event.weights is None else event.weights
    curve = metrics.selective_risk_curve(confidences, losses, weights=weights)
    found = area_influences(confidences, losses, curve)
    for influence in found:
        assert weights @ influence == pytest.approx(0, abs=1e-10)
    step = 1e-6 * weights.sum()
    for i in (0, 7, 23):
        moved = weights.copy()
        moved[i] += step
        other = metrics.selective_risk_curve(confidences, losses, weights=moved)
        share = step / moved.sum()
        assert (other.area - curve.area) / share == pytest.approx(found[0][i], abs=1e-4)
        assert (other.excess_area - curve.excess_area) / share == pytest.approx(found[1][i], abs=1e-4)


def test_intervals_of_the_area_are_as_wide_as_the_area_varies() -> None:
    """The half-width at 95 % is about twice the spread of the area over fresh samples."""
    areas = np.array([selection(events(seed, 500), 0.95).area.value for seed in range(60)], dtype=float)
    one = selection(events(99, 500), 0.95).area
    assert one.low is not None
    assert one.high is not None
    assert (one.high - one.low) / 2 / 1.96 == pytest.approx(areas.std(ddof=1), rel=0.4)  # 4 / sqrt(2 * 60)


def test_the_band_holds_calibrated_curves_and_not_others() -> None:
    """A calibrated model's curve lies inside at about nine of ten positions, one that is too high hardly."""
    inside = []
    true = events(1, 2000)
    odds = true.confidences / (1 - true.confidences)
    for factor in (1.0, 5.0):
        event = Events(factor * odds / (1 + factor * odds), true.outcomes)
        band = consistency_band(event, level=0.9, seed=0)
        assert len(band.positions) == len(band.low) == len(band.high) == 101
        corp = metrics.corp_reliability_curve(event.confidences, event.outcomes)
        knots = np.stack([corp.lower, corp.upper], axis=1).ravel()
        curve = np.interp(band.positions, knots, np.repeat(corp.values, 2))
        inside.append(np.mean((curve >= band.low) & (curve <= band.high)))
    assert inside[0] > 0.7
    assert inside[1] < 0.3


def test_bands_drawn_in_blocks(monkeypatch) -> None:
    """Where samples of many weights are drawn in blocks, the band is as wide and stands where it did."""
    event = events(3, 400, weighted=True)
    whole = consistency_band(event, level=0.9, seed=0)
    monkeypatch.setattr(diagrams, "MOST_DRAWN", 7 * 400)
    parts = consistency_band(event, level=0.9, seed=0)
    width = np.mean(np.subtract(whole.high, whole.low))
    assert parts != whole
    assert np.abs(np.subtract(parts.low, whole.low)).mean() < width / 8
    assert np.abs(np.subtract(parts.high, whole.high)).mean() < width / 8


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    """At most some hundred points each, and what is left lies on the whole curve."""
    event = events(2, 3000)
    found = shapes_of("top label", event, event, level=0.95, seed=0)
    assert found.roc is None
    assert found.selection is not None
    whole = metrics.selective_risk_curve(event.confidences, 1 - event.outcomes)
    thinned = found.selection.curve
    assert len(thinned.coverage) <= MOST_POINTS
    assert set(zip(thinned.coverage, thinned.risk, strict=True)) <= set(
        zip(whole.coverage, whole.risk, strict=True)
    )
    assert thinned.coverage[-1] == 1.0
    assert len(found.witness.points) <= MOST_POINTS
    witness = metrics.smooth_calibration_witness(event.confidences, event.outcomes)
    assert found.witness.value == witness.value
    roc = shapes_of("positive class", event, None, level=0.95, seed=0).roc
    assert roc is not None
    assert (roc.true_positive_rate[0], roc.true_positive_rate[-1]) == (0.0, 1.0)


def test_the_witness_without_its_straight_points_is_the_same_function() -> None:
    """It rises from the lowest probability to the highest, and between its points lies on the whole one."""
    event = events(5, 60)
    found = shapes_of("top label", event, event, level=0.95, seed=0).witness
    whole = metrics.smooth_calibration_witness(event.confidences, event.outcomes)
    points, values = whole.points.numpy(), whole.values.numpy()
    assert 2 < len(found.points) < len(points)
    assert (found.points[0], found.points[-1]) == (points[0], points[-1])
    assert np.interp(points, found.points, found.values) == pytest.approx(values, abs=1e-8)


def test_few_samples() -> None:
    """Two samples, one outcome, one confidence: curves of one step, no ROC."""
    event = Events(np.array([0.5, 0.5]), np.array([1.0, 1.0]))
    found = shapes_of("positive class", event, event, level=0.95, seed=0)
    assert found.corp.values == (1.0,)
    assert shapes_of("positive class", event, None, level=0.95, seed=0).roc is None
    assert len(set(found.band.positions)) == 1


def test_curves_of_a_band_are_those_of_the_diagram() -> None:
    """All curves at once equal the one regression for each, beyond and between the steps too."""
    rng = np.random.default_rng(0)
    points = np.unique(rng.integers(50, size=30) / 50)
    weights = rng.integers(1, 4, size=len(points)).astype(float)
    sums = rng.integers(0, 4, size=(20, len(points))) * weights / 3
    positions = np.linspace(-0.1, 1.1, 61)
    curves = isotonic_curves(points, weights, sums, positions)
    alone = [blocks_of_points(points, weights, each).at(positions) for each in sums]
    np.testing.assert_allclose(curves, alone, atol=1e-12)
