"""Reliability diagrams as numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibrant import metrics
from calibrant.evaluation.judging.diagrams import is_uneven, reliability_curve
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.resampling.intervals import wilson_interval
from calibrant.evaluation.resampling.null import draw_null
from calibrant.evaluation.result import Curve


def curve_of(given: Events, num_bins: int = 15, *, level: float = 0.95, num_draws: int = 400) -> Curve:
    """The diagram of some events with its band."""
    drawn = draw_null(given, num_bins, num_draws, (0,))
    return reliability_curve("top label", given, drawn.outcomes, num_bins, level)


def calibrated(rng: np.random.Generator, num_samples: int, weights: np.ndarray | None = None) -> Events:
    """Events that happen as often as is stated."""
    confidences = rng.uniform(0.3, 1, size=num_samples)
    return Events(confidences, (rng.random(num_samples) < confidences).astype(float), weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_points_are_those_of_the_reliability_table(rng, weighted) -> None:
    """Edges, mean confidence and share agree with the public table, empty bins included."""
    given = calibrated(rng, 200, rng.choice([0.5, 1.0, 3.0], size=200) if weighted else None)
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
    given = calibrated(rng, 300)
    found = curve_of(given)
    both = np.add(found.histogram_correct, found.histogram_incorrect)
    assert both.reshape(15, 3).sum(axis=1).tolist() == list(found.counts)
    assert sum(found.histogram_correct) == given.outcomes.sum()
    assert len(found.histogram_edges) == 46
    assert set(found.edges) <= set(found.histogram_edges)


def test_the_band_holds_calibrated_shares() -> None:
    """Of the bins of 40 calibrated models 95 % lie in their bands; |z| < 4, discreteness only adds."""
    inside, total = 0, 0
    for model in range(40):
        found = curve_of(calibrated(np.random.default_rng(model), 2000), 10)
        for share, low, high in zip(found.accuracy, found.expected_low, found.expected_high, strict=True):
            if share is not None:
                total += 1
                inside += low <= share <= high
    assert total > 250
    assert inside / total > 0.95 - 4 * np.sqrt(0.95 * 0.05 / total)


def test_the_band_bites(rng) -> None:
    """Shares of an over-confident model lie below their bands."""
    honest = calibrated(rng, 5000)
    found = curve_of(Events(np.minimum(1, honest.confidences + 0.1), honest.outcomes), 10)
    below = [a < low for a, low in zip(found.accuracy, found.expected_low, strict=True) if a is not None]
    assert all(below)


def test_intervals_are_wilsons_with_the_effective_number(rng) -> None:
    """Two copies at half the weight are as precise as one: the interval is that of the unweighted half."""
    confidences = np.full(40, 0.7)
    outcomes = (np.arange(40) < 25).astype(float)
    plain = curve_of(Events(confidences, outcomes))
    halves = curve_of(Events(confidences, outcomes, np.full(40, 0.5)))
    assert (plain.low[10], plain.high[10]) == wilson_interval(25 / 40, 40, 0.95)
    assert (halves.low[10], halves.high[10]) == pytest.approx((plain.low[10], plain.high[10]))


def rare(rng: np.random.Generator, num_samples: int, *, digits: int = 12) -> Events:
    """A rare event that is stated as often as it occurs; with few digits there are ties."""
    stated = np.round(1 / (1 + np.exp(4.5 - rng.normal(size=num_samples))), digits)
    return Events(stated, (rng.random(num_samples) < stated).astype(float))


@pytest.mark.parametrize("digits", [12, 2])
def test_bins_of_equal_mass_where_one_of_equal_width_holds_nearly_all(rng, digits) -> None:
    """Each holds a fifteenth, though ties are shared out; what they sum to is what all samples sum to."""
    given = rare(rng, 3000, digits=digits)
    assert is_uneven(given, 15)
    assert not is_uneven(calibrated(rng, 3000), 15)
    drawn = draw_null(given, 15, 200, (0,))
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
