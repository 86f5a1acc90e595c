"""The top probabilities that the focal map can lower, and those that it can raise, for K classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.theory import confidence_threshold, focal_calibration_map
from calibrant_lab.theory import confidence_region


def top_change(q: np.ndarray[Any, Any], gamma: float) -> np.ndarray[Any, Any]:
    """By how much the top probability of each row rises."""
    return focal_calibration_map(q, gamma=gamma).numpy().max(1) - q.max(1)


@pytest.mark.parametrize("gamma", [0.05, 0.3, 1.0, 2.5])
def test_three_classes_are_never_lowered(gamma: float) -> None:
    """On a fine grid of the simplex, and by the region's search."""
    grid = np.linspace(0, 1, 301)
    a, b = (x.ravel() for x in np.meshgrid(grid, grid))
    rows = np.stack([a, b, 1 - a - b], axis=1)[a + b <= 1].clip(min=0)
    assert top_change(rows, gamma).min() > -1e-15
    assert confidence_region(gamma, 3).lowered_below == pytest.approx(1 / 3)


@pytest.mark.parametrize(("gamma", "num_classes"), [(0.3, 4), (1.0, 5), (0.3, 10), (1.0, 100), (3.0, 1000)])
def test_region_against_random_distributions(
    gamma: float, num_classes: int, rng: np.random.Generator
) -> None:
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
    """More classes, more room; with a thousand the upper bound is nearly the root."""
    regions = [confidence_region(1, count) for count in (3, 4, 10, 100, 1000)]
    bounds = [region.lowered_below for region in regions]
    assert min(np.diff(bounds)) > -1e-8
    assert bounds[-1] == pytest.approx(confidence_threshold(1).above, abs=0.003)
    raised = [region.raised_above for region in regions]
    assert max(np.diff(raised)) < 1e-8


def test_region_is_reached() -> None:
    """Just below the bound a distribution is lowered: four classes, three on top."""
    bound = confidence_region(1, 4).lowered_below
    top = bound - 1e-4
    assert top_change(np.array([[top, top, top, 1 - 3 * top]]), 1.0)[0] < 0


def test_refused_arguments() -> None:
    """The region wants a positive exponent, and two classes."""
    with pytest.raises(ValueError, match=r"`gamma` must be above 0; got -0\.5"):
        confidence_region(-0.5, 3)
    with pytest.raises(ValueError, match="`num_classes` must be at least 2; got 1"):
        confidence_region(1, 1)
