"""The interval of the largest gap of any bin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibrant.evaluation.resampling.event_cells import BinnedEvents, ResidualSums
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.resampling.inversion import invert, widest_gaps
from calibrant.evaluation.resampling.null import draw_null


def cells(stated: list[float], outcomes: list[float], weights: list[float] | None = None) -> ResidualSums:
    """Bins of equal width."""
    given = None if weights is None else np.array(weights)
    return BinnedEvents(Events(np.array(stated), np.array(outcomes), given), 15).cells("width max")


def test_each_bin_has_its_exact_interval() -> None:
    """Clopper and Pearson's of 3 in 10 is 0.0667 to 0.6525, of 1 in 1 is 0.025 to 1; empty bins have none."""
    found = widest_gaps(cells([0.5] * 10 + [0.9], [1.0] * 3 + [0.0] * 7 + [1.0]), 0.95)
    assert sorted(found[found != 0]) == pytest.approx([0.025 - 0.9, 0.0667395 - 0.5], abs=1e-6)


def test_copies_count_and_scale_does_not() -> None:
    """Weights that are all twice as large change nothing; unequal ones count as fewer samples."""
    stated, outcomes = [0.5] * 10, [1.0] * 3 + [0.0] * 7
    alone = np.abs(widest_gaps(cells(stated, outcomes), 0.95)).max()
    assert np.abs(widest_gaps(cells(stated, outcomes, [2.0] * 10), 0.95)).max() == pytest.approx(alone)
    unequal = cells(stated, outcomes, [0.1, 0.1, 2.8, *([0.1] * 5), 3.5, 3.0])
    assert np.abs(widest_gaps(unequal, 0.95)).max() > alone + 0.02


def test_a_rare_bin_may_hide_any_gap() -> None:
    """One sample that came true leaves the interval wide; without it, it is narrow."""
    rng = np.random.default_rng(0)
    outcomes = (rng.random(2000) < 0.8).astype(float)

    def high(extra: list[float]) -> float:
        given = Events(np.append(np.full(2000, 0.9), extra), np.append(outcomes, np.ones(len(extra))))
        place = BinnedEvents(given, 15)
        draws = draw_null(place, 15, 99, (0,), num_kept=99)
        sums = np.ascontiguousarray(draws.sums[:, place.rows("width")])
        return invert(place.cells("width max"), sums, 0.95).high

    assert high([]) == pytest.approx(0.1, abs=0.04)
    assert high([0.6]) == pytest.approx(0.575, abs=1e-6)


def test_clusters_count_as_fewer_samples() -> None:
    """Where the residuals of a cluster are alike, so many samples tell less."""
    given = Events(np.full(60, 0.5), np.repeat([1.0, 0.0, 0.0], 20), clusters=np.repeat(np.arange(6), 10))
    place = BinnedEvents(given, 15)
    draws = draw_null(place, 15, 20, (0,), num_kept=20)
    assert draws.clustered is not None
    clustered = replace(place.cells("width max"), clustered=draws.clustered["width"])
    alone = replace(clustered, clustered=None)
    assert np.abs(widest_gaps(clustered, 0.95)).max() > np.abs(widest_gaps(alone, 0.95)).max() + 0.1
