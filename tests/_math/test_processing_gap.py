"""The post-processing gap against bounded least squares, closed forms, its own dual and the smooth error."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from calibrant._math.lipschitz import smooth_calibration_error
from calibrant._math.processing_gap import post_processing_gap

Vector: TypeAlias = NDArray[np.float64]


def by_least_squares(scores: Vector, outcomes: Vector, weights: Vector) -> float:
    """The same gap by an active-set solver: κ is a free start plus rises in [0, 2 d]."""
    points, ties = np.unique(scores, return_inverse=True)
    upper = np.concatenate([[np.inf], 2 * np.diff(points)])
    lower = np.concatenate([[-np.inf], np.zeros(len(points) - 1)])
    root = np.sqrt(weights / weights.sum())
    design = np.tri(len(points))[ties] * root[:, None]
    fit = lsq_linear(design, root * outcomes, (lower, upper), method="bvls", tol=1e-15)
    return float(np.sum(root**2 * (scores - outcomes) ** 2) - 2 * fit.cost)


def sample(rng: np.random.Generator, number: int) -> tuple[Vector, Vector, Vector]:
    """Well, over-, under-confident and backward models; ties; uneven weights; a single point."""
    n = int(rng.integers(1, 40))
    scores = np.round(rng.random(n), [1, 2, 15][number % 3])
    chance = [scores, 0.5 * scores, 0.5 + 0 * scores, 1 - scores, np.round(scores)][number % 5]
    weights = [np.ones(n), rng.random(n) ** 4 + 1e-6][number % 2]
    return scores, (rng.random(n) < chance) * 1.0, weights


def test_equals_bounded_least_squares() -> None:
    """On 60 instances the gap is that of an active-set solver to 1e-10."""
    rng = np.random.default_rng(1)
    for number in range(60):  # each kind of scores with each of outcomes and of weights
        case = sample(rng, number)
        assert post_processing_gap(*case).value == pytest.approx(by_least_squares(*case), abs=1e-10), number


probability = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1, allow_subnormal=False))
rows = st.tuples(probability, st.sampled_from([0.0, 1.0]), st.floats(1e-3, 10))


@given(st.lists(rows, min_size=1, max_size=40))
def test_feasible_certified_and_between_its_bounds(table: list[tuple[float, float, float]]) -> None:
    """κ keeps its constraints and attains the value, the dual proves it, and smCE² ≤ pGap ≤ 2 smCE."""
    scores, outcomes, weights = (np.array(column) for column in zip(*table, strict=True))
    gap = post_processing_gap(scores, outcomes, weights)
    moved = gap.changed - gap.points
    assert np.all(np.abs(np.diff(moved)) <= np.diff(gap.points) + 4e-16)  # roundings of numbers up to 2
    assert np.all((gap.changed >= -1e-12) & (gap.changed <= 1 + 1e-12))
    kappa = gap.changed[np.searchsorted(gap.points, scores)]
    gain = np.average((scores - outcomes) ** 2 - (kappa - outcomes) ** 2, weights=weights)
    assert gap.value == pytest.approx(max(gain, 0.0), abs=1e-12)
    assert gap.upper_bound - gap.value <= 1e-12
    smooth = smooth_calibration_error(scores, outcomes, weights)
    assert smooth**2 - 1e-12 <= gap.value <= 2 * smooth + 1e-12


def test_closed_forms() -> None:
    """A constant score goes to the mean; two scores rise by twice their distance at most, and never fall."""
    half = np.array([0.0, 1.0, 0.0, 1.0])
    constant = post_processing_gap(np.full(4, 0.8), half)
    assert constant.value == pytest.approx(0.09, abs=1e-15)
    assert constant.changed == pytest.approx([0.5], abs=1e-15)
    steep = post_processing_gap(np.array([0.4, 0.6]), np.array([0.0, 1.0]))
    assert steep.changed == pytest.approx([0.3, 0.7], abs=1e-15)
    assert steep.value == pytest.approx(0.16 - 0.09, abs=1e-15)
    backward = post_processing_gap(np.array([0.4, 0.6]), np.array([1.0, 0.0]))
    assert backward.changed == pytest.approx([0.5, 0.5], abs=1e-15)
    assert backward.value == pytest.approx(0.36 - 0.25, abs=1e-15)
    assert post_processing_gap(np.repeat([0.25, 0.5], 4), np.array([1.0, 0, 0, 0, 1, 0, 1, 0])).value < 1e-30


@pytest.mark.parametrize("spread", [1e-6, 1.0])
def test_long_samples_stay_certified(spread: float) -> None:
    """20000 alternating outcomes, which send the zero to and fro, leave the certificate below 1e-12."""
    scores = 0.5 + spread * (np.arange(20000) / 40000)
    gap = post_processing_gap(np.minimum(scores, 1.0), np.arange(20000) % 2 * 1.0)
    assert gap.upper_bound - gap.value <= 1e-12


def test_golden_values(golden: Callable[[str], Any]) -> None:
    """The interior-point values of the reference file, to 1e-8: that solver's tolerance on the objective."""
    reference = golden("smce.json")
    cases = [
        (case["conf"], case["correct"], case["pgap_squared_QP"]) for case in reference["sets"].values()
    ] + [(case["v"], case["y"], case["pgap_sq"]) for case in reference["small"]]
    for scores, outcomes, value in cases:
        gap = post_processing_gap(np.array(scores, dtype=float), np.array(outcomes, dtype=float))
        assert gap.value == pytest.approx(value, abs=1e-8)


def test_the_sandwich_bites() -> None:
    """Without the bound on the rise (isotonic regression) the gap exceeds twice the smooth error."""
    from sklearn.isotonic import IsotonicRegression

    scores, outcomes = np.linspace(0.49, 0.51, 20), np.arange(20) >= 10
    fitted = IsotonicRegression().fit_transform(scores, outcomes)
    isotonic = np.mean((scores - outcomes) ** 2 - (fitted - outcomes) ** 2)
    smooth = smooth_calibration_error(scores, outcomes.astype(float))
    assert isotonic > 2 * smooth + 1e-4
    assert post_processing_gap(scores, outcomes.astype(float)).value <= 2 * smooth
