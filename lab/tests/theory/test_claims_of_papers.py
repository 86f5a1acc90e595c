"""Claims of single papers: the confidence region, the line of temperatures, focal calibration loss."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from calibrant.theory import (
    closest_temperature,
    confidence_threshold,
    focal_calibration_map,
    focal_calibration_minimiser,
    gradient_factor,
)
from calibrant_lab import theory
from calibrant_lab.theory import confidence_region


def top_change(q: np.ndarray[Any, Any], gamma: float) -> np.ndarray[Any, Any]:
    return focal_calibration_map(q, gamma=gamma).numpy().max(1) - q.max(1)


@pytest.mark.parametrize("gamma", [0.05, 0.3, 1.0, 2.5])
def test_three_classes_are_never_lowered(gamma) -> None:
    grid = np.linspace(0, 1, 301)
    a, b = (x.ravel() for x in np.meshgrid(grid, grid))
    rows = np.stack([a, b, 1 - a - b], axis=1)[a + b <= 1].clip(min=0)
    assert top_change(rows, gamma).min() > -1e-15
    assert confidence_region(gamma, 3).lowered_below == pytest.approx(1 / 3)


@pytest.mark.parametrize(("gamma", "num_classes"), [(0.3, 4), (1.0, 5), (0.3, 10), (1.0, 100), (3.0, 1000)])
def test_region_against_random_distributions(gamma, num_classes, rng) -> None:
    """Nothing is lowered above its bound nor raised below the other, and it is nearly reached."""
    region = confidence_region(gamma, num_classes)
    threshold = confidence_threshold(gamma)
    assert 1 / num_classes <= region.raised_above <= threshold.above
    assert threshold.below <= region.raised_above or region.raised_above == 1 / num_classes
    assert region.lowered_below <= threshold.above
    for shape in (0.05, 0.3, 1.0, 10.0):
        q = rng.dirichlet(np.full(num_classes, shape), size=300)
        ties = rng.integers(1, 4, size=300)  # several nearly equal at the top: where lowering is easiest
        for row, count in zip(q, ties, strict=True):
            row[np.argsort(row)[-count:]] = row.max() * (1 - 1e-3 * rng.random(count))
        q /= q.sum(1, keepdims=True)
        change, top = top_change(q, gamma), q.max(1)
        assert (change[top > region.lowered_below + 1e-6] > -1e-15).all()
        assert (change[top < region.raised_above - 1e-6] < 1e-15).all()


def test_the_region_grows_towards_the_thresholds() -> None:
    regions = [confidence_region(1, count) for count in (3, 4, 10, 100, 1000)]
    bounds = [region.lowered_below for region in regions]
    assert min(np.diff(bounds)) > -1e-8
    assert bounds[-1] == pytest.approx(confidence_threshold(1).above, abs=0.003)
    raised = [region.raised_above for region in regions]
    assert max(np.diff(raised)) < 1e-8
    top = bounds[1] - 1e-4  # of four classes the bound is reached
    assert top_change(np.array([[top, top, top, 1 - 3 * top]]), 1.0)[0] < 0


@pytest.mark.parametrize(
    ("num_classes", "max_gamma", "num_gammas", "slope", "intercept"),
    [
        (2, 5, 100, 0.929, 0.863),
        (2, 7, 140, 0.951, 0.821),
        (2, 10, 200, 0.967, 0.774),
        (3, 5, 20, 0.637, 0.894),
    ],
)
def test_lines(num_classes, max_gamma, num_gammas, slope, intercept) -> None:
    """Slope and intercept depend on the range; in no range are they .95 and .85 at once for two classes."""
    found = theory.temperature_fit(num_classes, max_gamma=max_gamma, num_gammas=num_gammas)
    assert found.slope == pytest.approx(slope, abs=1e-3)
    assert found.intercept == pytest.approx(intercept, abs=1.5e-3)


def test_line_of_four_classes() -> None:
    """Slope .48 to .50, intercept .92 to .97, error up to .10 to .12: not the published .47, .85 and .08."""
    found = theory.temperature_fit(4, max_gamma=5, num_gammas=4)
    assert 0.475 < found.slope < 0.505
    assert 0.915 < found.intercept < 0.975
    assert 0.1 < found.largest_error < 0.12


def test_composition() -> None:
    found = theory.temperature_composition({3: 0.9, 1: 1.0}, proper_temperature=2.0, num_classes=3)
    assert [each.gamma for each in found] == [1, 3]
    for each in found:
        assert each.foretold == pytest.approx(2 * closest_temperature(each.gamma, 3).temperature)
    assert [each.fitted for each in found] == [1.0, 0.9]


def rows(rng: np.random.Generator, count: int, classes: int) -> torch.Tensor:
    """Distributions from nearly certain to nearly uniform."""
    spread = np.exp(rng.uniform(-3, 3, size=(count, 1)))
    draws = rng.gamma(np.broadcast_to(spread, (count, classes))) + 1e-12
    return torch.from_numpy(draws / draws.sum(1, keepdims=True))


@pytest.mark.parametrize("weight", [0.1, 0.5, 1.5, 10.0])
def test_not_strictly_proper(weight) -> None:
    """The counter-example to strict properness for a positive weight, and the cases that are proper."""
    assert theory.properness_gap([[0.2, 0.8]], gamma=2, calibration_weight=weight).excess.item() > 1e-4
    assert theory.properness_gap([[0.2, 0.8]], gamma=0, calibration_weight=weight).excess.item() < 1e-15
    even = theory.properness_gap([[0.25] * 4, [1.0, 0.0, 0.0, 0.0]], gamma=2, calibration_weight=weight)
    assert even.excess.abs().max().item() < 1e-15


def test_proper_at_the_same_posteriors_as_focal_loss() -> None:
    """Where g is equal over the classes the truth is the minimiser, whatever the weight."""

    def partner(low: float) -> float:  # beyond the turn of g, with the same g
        level = gradient_factor(low, gamma=1.0).item()
        return float(brentq(lambda p: gradient_factor(p, gamma=1.0).item() - level, 0.1354, 0.4))

    low = float(brentq(lambda at: 2 * partner(at) + 6 * at - 1, 0.05, 0.13, xtol=1e-15))
    posterior = torch.tensor([[partner(low)] * 2 + [low] * 6], dtype=torch.float64)
    assert posterior.max() > 1.2 * posterior.min()
    for weight in (0.0, 0.5, 5.0):
        gap = theory.properness_gap(posterior, gamma=1.0, calibration_weight=weight)
        torch.testing.assert_close(gap.minimiser, posterior, rtol=1e-9, atol=0)


def test_post_processing_gap_can_be_larger_up_to_a_bound(rng) -> None:
    q = focal_calibration_minimiser([0.8], gamma=2, calibration_weight=0).item()
    for weight, printed in ((0.5, 0.0083), (1.0, 0.0260)):
        gaps = theory.constant_processing_gaps(q, event_rate=0.8, gamma=2, calibration_weight=weight)
        assert (gaps.focal < 1e-15, round(gaps.focal_calibration, 4)) == (True, printed)
    for _ in range(20):
        (given, rate), (gamma, weight) = rng.uniform(0.01, 0.99, 2), rng.uniform(0, 5, 2)
        gaps = theory.constant_processing_gaps(given, event_rate=rate, gamma=gamma, calibration_weight=weight)
        assert gaps.focal_calibration <= gaps.bound + 1e-12


@pytest.mark.parametrize("gamma", [0.3, 1.0, 3.0, 5.0])
def test_confidence_theorem_for_two_classes(gamma, rng) -> None:
    """With two classes FCL's top probability is never further from the truth; with three none was found."""
    for classes in (2, 3):
        for weight in (0.1, 0.5, 4.0):
            errors = theory.top_errors(rows(rng, 500, classes), gamma=gamma, calibration_weight=weight)
            assert bool((errors.focal_calibration.abs() <= errors.focal.abs() + 1e-12).all())


@pytest.mark.parametrize(
    ("posterior", "gamma", "weight"),
    [
        ([0.24] + [0.2] * 3 + [0.01] * 16, 1.0, 0.5),
        ([0.24] + [0.2] * 3 + [0.01] * 16, 1.0, 1.5),
        ([0.22] + [0.15] * 3 + [0.33 / 96] * 96, 2.0, 0.5),
        ([0.18] + [0.13] * 4 + [0.3 / 95] * 95, 3.0, 0.5),
        ([0.16] + [0.11] * 4 + [0.4 / 95] * 95, 4.0, 1.5),
        ([0.23] + [0.21] * 3 + [0.14 / 6] * 6, 1.0, 0.5),
    ],
)
def test_confidence_theorem_fails_for_many_classes(posterior, gamma, weight) -> None:
    errors = theory.top_errors([posterior], gamma=gamma, calibration_weight=weight)
    assert errors.focal_calibration.abs().item() > errors.focal.abs().item() + 1e-4
    assert errors.focal_calibration_distance.item() < errors.focal_distance.item()


def test_confidence_theorem_fails_where_focal_loss_is_right() -> None:
    """Between a posterior whose top focal loss raises and one whose top it lowers lies one that it keeps."""

    def posterior(share: float) -> list[float]:
        return [0.24] + [share] * 3 + [(0.76 - 3 * share) / 16] * 16

    share = brentq(
        lambda at: theory.top_errors([posterior(at)], gamma=1, calibration_weight=0).focal.item(), 0.16, 0.22
    )
    errors = theory.top_errors([posterior(share)], gamma=1, calibration_weight=0.5)
    assert abs(errors.focal.item()) < 1e-12
    assert abs(errors.focal_calibration.item()) > 2e-4


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"`gamma` must be above 0; got -0\.5"):
        confidence_region(-0.5, 3)
    with pytest.raises(ValueError, match="`num_classes` must be at least 2; got 1"):
        confidence_region(1, 1)
    with pytest.raises(ValueError, match=r"`prediction` must be inside \(0, 1\); got 0"):
        theory.constant_processing_gaps(0.0, event_rate=0.5, gamma=1, calibration_weight=1)
    with pytest.raises(ValueError, match=r"row 0 sums to 0\.9"):
        theory.top_errors([[0.5, 0.4]], gamma=1, calibration_weight=1)
    with pytest.raises(ValueError, match="`max_gamma` must be above 0 and `num_gammas` at least 2"):
        theory.temperature_fit(num_gammas=1)
    with pytest.raises(ValueError, match="temperatures must be above 0 and finite; got 0"):
        theory.temperature_composition({1: 0.0}, proper_temperature=2.0)
