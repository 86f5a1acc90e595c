"""Diagrams with bins and without: their numbers, their bands and intervals."""

import numpy as np
import pytest
import torch

from calibrant import metrics
from calibrant._math.isotonic import isotonic_blocks
from calibrant.evaluation import smooth_consistency_band
from calibrant.evaluation.judging import diagrams
from calibrant.evaluation.judging.diagrams import (
    MOST_POINTS,
    area_influences,
    consistency_band,
    is_uneven,
    reliability_curve,
    selection,
    shapes_of,
)
from calibrant.evaluation.resampling.event_cells import BinnedEvents
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.resampling.intervals import wilson_interval
from calibrant.evaluation.resampling.kernels import isotonic_curves
from calibrant.evaluation.resampling.null import draw_null
from calibrant.evaluation.result import Curve
from calibrant.metrics import smooth_reliability_curve
from calibrant.reports import smooth_diagram


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


def test_the_band_of_tied_scores_stands_around_them() -> None:
    """From the lowest to the highest; around the diagonal, with ties that count by their weights."""
    rng = np.random.default_rng(0)
    probs = rng.choice([0.1, 0.4, 0.7], 3000)
    for weights in (None, rng.uniform(0.5, 3, 3000)):
        event = Events(probs, (rng.random(3000) < probs).astype(float), weights=weights)
        band = consistency_band(event, level=0.9, seed=0)
        assert band.positions == pytest.approx(np.linspace(0.1, 0.7, 101))
        for place, stated in ((0, 0.1), (50, 0.4), (100, 0.7)):
            assert band.low[place] < stated < band.high[place]
            assert band.high[place] - band.low[place] < 0.08


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
    alone = [isotonic_blocks(points, each / weights, weights).at(positions) for each in sums]
    np.testing.assert_allclose(curves, alone, atol=1e-12)


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
    probs = np.array([[0.7, 0.3], [0.1, 0.9], [0.5, 0.5]] * 50)
    weights = np.array([1.0, 1.0, 0.0] * 50)
    band = smooth_consistency_band(probs, bandwidth=0.02, weights=weights)
    assert min(band.positions) == pytest.approx(0.7, abs=0.01)
    assert smooth_diagram(
        smooth_reliability_curve(probs.max(axis=1), np.ones(150, dtype=int)), band=band
    ).get_legend()


def curve_of(given: Events, num_bins: int = 15, *, level: float = 0.95, num_draws: int = 400) -> Curve:
    """The diagram of some events with its band."""
    drawn = draw_null(BinnedEvents(given, num_bins), num_draws, (0,))
    return reliability_curve("top label", given, drawn.outcomes, num_bins, level)


def calibrated_events(
    rng: np.random.Generator, num_samples: int, weights: np.ndarray | None = None
) -> Events:
    """Events that happen as often as is stated."""
    confidences = rng.uniform(0.3, 1, size=num_samples)
    return Events(confidences, (rng.random(num_samples) < confidences).astype(float), weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_points_are_those_of_the_reliability_table(rng, weighted) -> None:
    given = calibrated_events(rng, 200, rng.choice([0.5, 1.0, 3.0], size=200) if weighted else None)
    found = curve_of(given)
    table = metrics.reliability_table(
        given.confidences, torch.from_numpy(given.outcomes), num_bins=15, weights=given.weights
    )
    assert found.edges == table.edges
    assert found.confidence[0] is None
    assert found.confidence == pytest.approx(table.confidence, abs=1e-15)
    assert found.accuracy == pytest.approx(table.accuracy, abs=1e-15)
    assert sum(found.counts) == 200


def test_histograms_hold_every_sample_once(rng) -> None:
    """Right and wrong together, and each bin of the diagram is three bins of the histogram."""
    given = calibrated_events(rng, 300)
    found = curve_of(given)
    both = np.add(found.histogram_correct, found.histogram_incorrect)
    assert both.reshape(15, 3).sum(axis=1).tolist() == list(found.counts)
    assert sum(found.histogram_correct) == given.outcomes.sum()
    assert len(found.histogram_edges) == 46
    assert set(found.edges) <= set(found.histogram_edges)


def test_the_band_holds_calibrated_shares(rng) -> None:
    """Of the bins of 40 calibrated_events models 95 % lie in their bands; |z| < 4, discreteness only adds."""
    inside, total = 0, 0
    for model in range(40):
        found = curve_of(calibrated_events(np.random.default_rng(model), 2000), 10)
        for share, low, high in zip(found.accuracy, found.expected_low, found.expected_high, strict=True):
            if share is not None:
                total += 1
                inside += low <= share <= high
    assert total > 250
    assert inside / total > 0.95 - 4 * np.sqrt(0.95 * 0.05 / total)
    # Shares of an over-confident model lie below their bands.
    honest = calibrated_events(rng, 5000)
    found = curve_of(Events(np.minimum(1, honest.confidences + 0.1), honest.outcomes), 10)
    below = [a < low for a, low in zip(found.accuracy, found.expected_low, strict=True) if a is not None]
    assert all(below)


def test_intervals_are_wilsons_with_the_effective_number(rng) -> None:
    """Two copies at half the weight, or in a cluster of their own, are as precise as one."""
    confidences = np.full(40, 0.7)
    outcomes = (np.arange(40) < 25).astype(float)
    plain = curve_of(Events(confidences, outcomes))
    halves = curve_of(Events(confidences, outcomes, np.full(40, 0.5)))
    assert (plain.low[10], plain.high[10]) == wilson_interval(25 / 40, 40, 0.95)
    assert (halves.low[10], halves.high[10]) == pytest.approx((plain.low[10], plain.high[10]))
    pairs = curve_of(Events(confidences.repeat(2), outcomes.repeat(2), clusters=np.arange(40).repeat(2)))
    assert (pairs.low[10], pairs.high[10]) == pytest.approx((plain.low[10], plain.high[10]), abs=0.005)


def rare_events(rng: np.random.Generator, num_samples: int, *, digits: int = 12) -> Events:
    """A rare_events event that is stated as often as it occurs; with few digits there are ties."""
    stated = np.round(1 / (1 + np.exp(4.5 - rng.normal(size=num_samples))), digits)
    return Events(stated, (rng.random(num_samples) < stated).astype(float))


@pytest.mark.parametrize("digits", [12, 2])
def test_bins_of_equal_mass_where_one_of_equal_width_holds_nearly_all(rng, digits) -> None:
    """Each holds a fifteenth, though ties are shared out; what they sum to is what all samples sum to."""
    given = rare_events(rng, 3000, digits=digits)
    assert is_uneven(given, 15)
    assert not is_uneven(calibrated_events(rng, 3000), 15)
    drawn = draw_null(BinnedEvents(given, 15), 200, (0,))
    found = reliability_curve("positive class", given, drawn.outcomes_by_mass, 15, 0.95, by_mass=True)
    assert sum(found.counts) == pytest.approx(3000, abs=8)
    assert max(found.counts) - min(found.counts) <= 1
    for means, values in ((found.confidence, given.confidences), (found.accuracy, given.outcomes)):
        assert np.mean(np.array(means, dtype=float)) == pytest.approx(values.mean(), abs=1e-12)
    assert list(found.edges) == sorted(found.edges)
    inside = [low <= share <= high for low, share, high in zip(
        found.expected_low, found.accuracy, found.expected_high, strict=True)]  # fmt: skip
    assert np.mean(inside) > 0.8
    assert sum(found.histogram_correct) + sum(found.histogram_incorrect) == 3000
