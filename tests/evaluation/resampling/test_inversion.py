"""Intervals of calibration errors: consistent with chance, and true to their level."""

from dataclasses import replace
from statistics import NormalDist
from typing import get_args

import numpy as np
import pytest

from calibrant import Predictions, evaluate
from calibrant.evaluation import check
from calibrant.evaluation.resampling.event_cells import BinnedEvents, Kernel, ResidualSums, joined
from calibrant.evaluation.resampling.events import Events, Matrix, binned_error
from calibrant.evaluation.resampling.inversion import (
    Inverted,
    _between,
    invert,
    rising_root,
    upper_tail,
    widest_gaps,
)
from calibrant.evaluation.resampling.null import draw_null, noise_of

KERNELS: tuple[Kernel, ...] = get_args(Kernel)


def events(rng: np.random.Generator, num: int, factor: float) -> tuple[Events, Events]:
    """Log-odds stated ``factor`` times too large: with outcomes, and with their probabilities instead."""
    log_odds = rng.normal(size=num) * 1.5
    true, stated = 1 / (1 + np.exp(-log_odds)), 1 / (1 + np.exp(-factor * log_odds))
    return Events(stated, (rng.random(num) < true).astype(float)), Events(stated, true)


def residuals(given: Events, kernel: Kernel, num_draws: int, seed: int = 0) -> tuple[ResidualSums, Matrix]:
    places = [BinnedEvents(given, 15)]
    return noise_of(places, [draw_null(places[0], num_draws, (seed,), num_kept=num_draws)], kernel)


def interval(given: Events, kernel: Kernel, num_draws: int = 200, seed: int = 0) -> tuple[Inverted, float]:
    """The interval and the p-value against calibration, from the same draws."""
    part, noise = residuals(given, kernel, num_draws, seed)
    p_value = (1 + int((part.error(noise) >= part.observed - 1e-12).sum())) / (1 + num_draws)
    return invert(part, noise, 0.95), p_value


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel != "kernel"])
def test_zero_is_left_out_exactly_where_the_error_is_beyond_chance(kernel) -> None:
    """Of 12 samples, some far off and some calibrated, none is called real and given zero, or the reverse."""
    rng = np.random.default_rng(1)
    seen = set()
    for model in range(12):
        found, p_value = interval(events(rng, 150, (1, 1.4, 2)[model % 3])[0], kernel, 99, model)
        assert (found.low > 0) == (p_value < 0.05)
        assert 0 <= found.low <= found.without_chance <= found.high
        seen.add(found.low > 0)
    assert seen == {True, False}
    given = residuals(events(np.random.default_rng(4), 120, 1.0)[0], kernel, 50)
    low = [invert(*given, 0.95, real=real).low for real in (True, False)]
    assert low[0] > 0 == low[1]  # also where the draws of the search do not say so, but others called it real


@pytest.mark.parametrize(("kernel", "factor"), [("width l1", 1.0), ("width l1", 1.2), ("smooth", 1.2)])
def test_true_errors_are_covered(kernel, factor) -> None:
    """In 30 samples the true error lies in at least 25 intervals; of true 95 % fewer do in 1 case of 300."""
    rng = np.random.default_rng(2)
    true = BinnedEvents(events(rng, 100_000, factor)[1], 15).cells(kernel).observed
    given = [events(rng, 300, factor)[0] for _ in range(30)]
    found = [interval(each, kernel, 100, model)[0] for model, each in enumerate(given)]
    assert sum(each.low <= true <= each.high for each in found) >= 25
    freed = float(np.mean([each.without_chance for each in found]))
    plain = float(np.mean([BinnedEvents(each, 15).cells(kernel).observed for each in given]))
    assert abs(freed - true) < abs(plain - true)  # most of what chance adds is taken off


def test_a_model_that_is_certain_and_wrong_has_an_interval() -> None:
    """Draws under calibration have no noise where 1 is stated; that of the gap found is added."""
    outcomes = np.append(np.ones(190), np.zeros(10))
    found, _ = interval(Events(np.ones(200), outcomes), "width l1")
    assert 0.01 < found.low < 0.05 < found.high < 0.10
    assert found.without_chance == pytest.approx(0.05, abs=0.003)
    # One bin, far off: the binomial standard error, to 3.5 standard errors of a quantile of 1000 draws.
    rng = np.random.default_rng(3)
    outcomes = (rng.random(1000) < 0.5).astype(float)
    found, _ = interval(Events(np.full(1000, 0.8), outcomes), "width l1", 1000)
    gap, reach = 0.8 - outcomes.mean(), 1.96 * np.sqrt(0.25 / 1000)
    assert found.low == pytest.approx(gap - reach, abs=0.15 * reach)
    assert found.high == pytest.approx(gap + reach, abs=0.15 * reach)


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_of_sums_are_those_of_samples(weighted) -> None:
    """With ties that the ends of bins divide, the sums over bins give the errors of the samples."""
    rng = np.random.default_rng(4)
    stated = np.round(rng.random(200), 1)
    weights = rng.integers(0, 4, 200).astype(float) if weighted else None
    given = Events(stated, (rng.random(200) < 0.5).astype(float), weights)
    cells = BinnedEvents(given, 7)
    for kernel, binning, norm in (
        ("width l1", "width", "l1"),
        ("mass l1", "mass", "l1"),
        ("width l2", "width", "l2"),
        ("width max", "width", "max"),
    ):
        expected = binned_error(stated, given.outcomes, weights, num_bins=7, binning=binning, norm=norm)
        assert cells.cells(kernel).observed == pytest.approx(expected, abs=1e-12)
    over, under = (cells.cells(kernel).observed for kernel in ("width over", "width under"))
    assert over + under == pytest.approx(cells.cells("width l1").observed)


def test_several_events_are_averaged() -> None:
    """The joined cells of two labels have the mean of their errors, with and without noise."""
    rng = np.random.default_rng(5)
    parts = [BinnedEvents(events(rng, 100, 1.5)[0], 15).cells("smooth") for _ in range(2)]
    both = joined(parts)
    assert both.observed == pytest.approx(np.mean([part.observed for part in parts]))
    gaps = both.gaps
    assert len(gaps) == 30
    assert both.variances(gaps).sum() == pytest.approx(
        sum(part.variances(half).sum() for part, half in zip(parts, np.split(gaps, 2), strict=True))
    )


def test_variances_are_those_of_drawn_outcomes() -> None:
    """With gaps the residual sums of 200 fresh samples vary as is said, to 4 standard errors."""
    rng = np.random.default_rng(6)
    drawn = np.array([BinnedEvents(events(rng, 200, 1.8)[0], 5).cells("width l1").found for _ in range(200)])
    cells = BinnedEvents(events(rng, 20_000, 1.8)[1], 5).cells("width l1")
    np.testing.assert_allclose(
        drawn.var(axis=0), 100 * cells.variances(cells.gaps), rtol=4 * (2 / 200) ** 0.5
    )


def test_tails_are_those_of_feldman_and_cousins() -> None:
    """Their table of 90 % intervals: 1 has the upper limit 2.64, so it is the lower end for that mean."""
    reach, normal = 2.64 - 1.0, NormalDist()
    accepted = 1 - upper_tail(2.64, 0.9) - normal.cdf(-reach)
    assert accepted == pytest.approx(0.9, abs=2e-3)
    assert upper_tail(0.0, 0.9) == pytest.approx(0.1)
    assert upper_tail(9.0, 0.9) == pytest.approx(0.05)


def test_intervals_gate_and_chance_agree() -> None:
    """At a limit of zero the gate fails exactly where the interval of the ECE leaves out zero."""
    seen = set()
    for model in range(6):
        rng = np.random.default_rng(model)
        given, _ = events(rng, 400, (1, 2)[model % 2])
        predictions = Predictions(confidence=given.confidences, correct=given.outcomes, split=np.ones(400))
        arm = evaluate(predictions, calibrators=[], bootstrap=2, null_draws=99).arms[0]
        gate = check(predictions, {"ece": 0.0}, bootstrap=99)  # as many draws
        low = arm.metrics["ece"].low
        assert (low > 0) == (gate.checks[0].outcome == "fail") == (arm.null[0].p_value <= 0.05)
        seen.add(low > 0)
    assert seen == {True, False}


def test_a_search_that_finds_nothing_ends() -> None:
    """At the far end, also where the way to it, added to the start, rounds to less than it."""
    start, end = -4.6913275131852155, 8.0
    assert start + (end - start) < end
    assert rising_root(lambda _: -1.0, start, end) == end
    assert rising_root(lambda place: place - 5.0, start, end) == pytest.approx(5.0)
    # Where no draw is left the function is flat: a line from there misses a root that is near.
    for place in (0.01, 0.03, 0.2):

        def function(at: float, place: float = place) -> float:
            return max(at + place, -2.8)

        found = _between(function, (0.0, place), (-12.7, -2.8), 0.05)
        assert found == pytest.approx(-place, abs=0.02)


def residual_sums(
    stated: list[float], outcomes: list[float], weights: list[float] | None = None
) -> ResidualSums:
    given = None if weights is None else np.array(weights)
    return BinnedEvents(Events(np.array(stated), np.array(outcomes), given), 15).cells("width max")


def test_each_bin_has_its_exact_interval() -> None:
    """Clopper and Pearson's of 3 in 10 is 0.0667 to 0.6525, of 1 in 1 is 0.025 to 1; empty bins have none."""
    found = widest_gaps(residual_sums([0.5] * 10 + [0.9], [1.0] * 3 + [0.0] * 7 + [1.0]), 0.95)
    assert sorted(found[found != 0]) == pytest.approx([0.025 - 0.9, 0.0667395 - 0.5], abs=1e-6)


def test_copies_count_and_scale_does_not() -> None:
    """Weights that are all twice as large change nothing; unequal ones count as fewer samples."""
    stated, outcomes = [0.5] * 10, [1.0] * 3 + [0.0] * 7
    alone = np.abs(widest_gaps(residual_sums(stated, outcomes), 0.95)).max()
    assert np.abs(widest_gaps(residual_sums(stated, outcomes, [2.0] * 10), 0.95)).max() == pytest.approx(
        alone
    )
    unequal = residual_sums(stated, outcomes, [0.1, 0.1, 2.8, *([0.1] * 5), 3.5, 3.0])
    assert np.abs(widest_gaps(unequal, 0.95)).max() > alone + 0.02


def test_a_rare_bin_may_hide_any_gap() -> None:
    rng = np.random.default_rng(0)
    outcomes = (rng.random(2000) < 0.8).astype(float)

    def high(extra: list[float]) -> float:
        given = Events(np.append(np.full(2000, 0.9), extra), np.append(outcomes, np.ones(len(extra))))
        return invert(*residuals(given, "width max", 99), 0.95).high

    assert high([]) == pytest.approx(0.1, abs=0.04)
    assert high([0.6]) == pytest.approx(0.575, abs=1e-6)


def test_clusters_count_as_fewer_samples() -> None:
    given = Events(np.full(60, 0.5), np.repeat([1.0, 0.0, 0.0], 20), clusters=np.repeat(np.arange(6), 10))
    clustered, _ = residuals(given, "width max", 20)
    alone = replace(clustered, clustered=None)
    assert np.abs(widest_gaps(clustered, 0.95)).max() > np.abs(widest_gaps(alone, 0.95)).max() + 0.1
