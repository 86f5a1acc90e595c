"""The Lipschitz programme against linear programming, closed forms, its own dual and finite differences."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import diags_array, vstack

from calibrant._math.lipschitz import (
    lipschitz_maximum,
    merge_ties,
    smooth_calibration_error,
    smooth_calibration_gradient,
    smooth_calibration_solution,
)

Vector: TypeAlias = NDArray[np.float64]
Law: TypeAlias = Callable[[Callable[..., float]], float]


def by_linear_programme(points: Vector, residuals: Vector) -> float:
    n = len(points)
    if n == 1:
        return float(abs(residuals[0]))
    rise = diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n)).tocsr()
    distances = np.diff(points)
    result = linprog(
        -residuals,
        A_ub=vstack([rise, -rise]),
        b_ub=np.concatenate([distances, distances]),
        bounds=(-1, 1),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert result.status == 0, result.message
    return float(-result.fun)


def instance(rng: np.random.Generator, number: int) -> tuple[Vector, Vector, Vector]:
    """Scores, outcomes and weights: random ones, and every shape that could trip the stacks."""
    n = int(rng.integers(1, 80))
    scores: Vector = [
        lambda: rng.random(n),
        lambda: rng.beta(0.05, 0.05, n),  # many at 0 and 1 exactly, after rounding below
        lambda: np.round(rng.random(n), 1),  # ties
        lambda: np.where(rng.random(n) < 0.5, 0.0, 0.5) + 1e-9 * rng.random(n),  # clusters
        lambda: np.where(rng.random(n) < 0.5, 0.0, 1.0),
        lambda: np.full(n, rng.random()),
        lambda: np.sort(rng.random(n)),
        lambda: np.linspace(0, 1, n),
    ][number % 8]()
    if number % 3 == 0:
        scores = np.round(scores, 3)
    outcomes: Vector = [
        lambda: (rng.random(n) < scores) * 1.0,
        lambda: (rng.random(n) < 1 - scores) * 1.0,
        lambda: np.arange(n) % 2 * 1.0,  # tosses the mass from side to side
        lambda: scores.copy(),  # residuals of zero
        lambda: (np.arange(n) > n / 2) * 1.0,
        lambda: np.zeros(n),
        lambda: rng.random(n),
    ][number % 7]()
    weights = [np.ones(n), rng.random(n) ** 8, (rng.random(n) < 0.5) + 1e-12][number % 3 - 1]
    return scores, outcomes, weights / weights.sum()


def test_equals_the_linear_programme() -> None:
    """On 168 random and adversarial instances the value is that of HiGHS to 1e-9 (its tolerance is 1e-10)."""
    rng = np.random.default_rng(1)
    for number in range(168):  # each kind of scores with each of outcomes and of weights
        scores, outcomes, weights = instance(rng, number)
        points, residuals, best = smooth_calibration_solution(scores, outcomes, weights)
        assert abs(best.value - by_linear_programme(points, residuals)) < 1e-9, number


def certify(points: Vector, residuals: Vector) -> None:
    """The witness is feasible and attains the value; the potential proves that nothing exceeds it."""
    value, upper_bound, witness, potential = lipschitz_maximum(points, residuals)
    scale = max(1.0, float(np.abs(residuals).sum()))
    assert np.all(np.abs(witness) <= 1)
    assert np.all(np.abs(np.diff(witness)) <= np.diff(points) + 2e-16)  # two roundings of numbers below 2
    assert abs(value - max(residuals @ witness, 0.0)) <= 1e-12 * scale
    cumulative = np.cumsum(residuals)
    assert potential[-1] == pytest.approx(cumulative[-1], abs=1e-12 * scale)
    dual = np.abs(np.diff(potential, prepend=0.0)).sum()
    dual += (np.diff(points) * np.abs(potential - cumulative)[:-1]).sum()
    assert abs(upper_bound - dual) <= 1e-12 * scale
    assert abs(upper_bound - value) <= 1e-12 * scale


def test_certificate_on_the_same_instances() -> None:
    """Feasible witness, valid dual, no gap beyond 1e-12."""
    rng = np.random.default_rng(2)
    for number in range(168):
        certify(*smooth_calibration_solution(*instance(rng, number))[:2])


numbers = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1, allow_subnormal=False))


@given(st.lists(st.tuples(numbers, st.floats(-1, 1)), min_size=1, max_size=40))
def test_certificate_whatever_the_numbers(pairs: list[tuple[float, float]]) -> None:
    points, residuals = (np.array(column) for column in zip(*sorted(pairs), strict=True))
    certify(points, residuals)
    certify(5 * points, residuals)  # so far apart that w runs from wall to wall


@pytest.mark.parametrize("spread", [1e-9, 1e-4, 1.0])
def test_no_drift_in_long_samples(spread: float) -> None:
    """5000 tiny masses that 5000 large alternating ones toss to and fro leave the gap below 1e-12."""
    rng = np.random.default_rng(3)
    points = np.sort(np.concatenate([rng.random(5000) * 1e-4, 0.3 + 0.7 * spread * rng.random(5000)]))
    residuals = np.concatenate([rng.random(5000) * 1e-6, np.where(np.arange(5000) % 2 == 0, 1.0, -1.0)])
    certify(points, residuals / np.abs(residuals).sum())


def test_untied_points_need_no_merging() -> None:
    """Points at distance zero give the same value as merged ones: merging only saves time."""
    rng = np.random.default_rng(4)
    points = np.sort(np.round(rng.random(300), 2))
    residuals = rng.normal(size=300) / 300
    merged, sums, ties = merge_ties(points, residuals)
    assert np.array_equal(merged[ties], points)
    assert np.array_equal(merged, np.unique(points))
    assert lipschitz_maximum(points, residuals).value == pytest.approx(
        lipschitz_maximum(merged, sums).value, abs=1e-14
    )


# Laws: each returns by how much an error function breaks it.


def sample(seed: int, n: int = 60) -> tuple[Vector, Vector, Vector]:
    """Scores with ties and both ends, outcomes of an over-confident model, whole weights."""
    rng = np.random.default_rng(seed)
    scores = np.concatenate([[0.0, 1.0], np.round(rng.random(n - 2), 2)])
    outcomes = (rng.random(n) < 0.2 + 0.5 * scores) * 1.0
    return scores, outcomes, rng.integers(1, 4, n).astype(float)


def constant_predictor(error: Callable[..., float]) -> float:
    """Everyone gets 0.3, three of four happen: |0.75 - 0.3|."""
    return abs(error(np.full(4, 0.3), np.array([1.0, 1, 0, 1])) - 0.45)


def two_scores(error: Callable[..., float]) -> float:
    """Residuals a = .3 at .2 and -b = -.1 at .7 : w is 1 and then 1 - .5, so a - b + .5 b."""
    scores = np.repeat([0.2, 0.7], 10)
    outcomes = np.concatenate([np.arange(10) < 8, np.arange(10) < 5]).astype(float)
    return abs(error(scores, outcomes) - (0.3 - 0.1 + 0.5 * 0.1))


def calibrated_groups(error: Callable[..., float]) -> float:
    """One of four at .25, one of two at .5, all at 1: nothing to see."""
    return error(np.array([0.25] * 4 + [0.5] * 2 + [1.0]), np.array([1.0, 0, 0, 0, 0, 1, 1]))


def at_least_mean_residual(error: Callable[..., float]) -> float:
    return max(
        abs(np.average(y - p, weights=w)) - error(p, y, w) for p, y, w in (sample(seed) for seed in range(20))
    )


def at_most_merged_residuals(error: Callable[..., float]) -> float:
    """|w| ≤ 1 at every distinct score."""
    return max(
        error(p, y, w) - np.abs(merge_ties(np.sort(p), ((y - p) * w / w.sum())[np.argsort(p)])[1]).sum()
        for p, y, w in (sample(seed) for seed in range(20))
    )


def no_jumps(error: Callable[..., float]) -> float:
    """|change| ≤ mean of (1 + |y - p|) |Δp|: w(p) changes no faster than p, and |w| ≤ 1."""
    worst = -np.inf
    for seed in range(20):
        p, y, w = sample(seed)
        moved = np.clip(p + 1e-3 * np.random.default_rng(seed).normal(size=len(p)), 0, 1)
        allowed = np.average((1 + np.abs(y - moved)) * np.abs(moved - p), weights=w)
        worst = max(worst, abs(error(moved, y, w) - error(p, y, w)) - allowed)
    return worst


def mirror(error: Callable[..., float]) -> float:
    """The event and its opposite have one error."""
    p, y, w = sample(7)
    return abs(error(p, y, w) - error(1 - p, 1 - y, w))


def steeper(p: Vector, y: Vector, w: Vector | None = None) -> float:
    """Fault: w may be 2-Lipschitz."""
    points, residuals, _ = smooth_calibration_solution(p, y, w)
    return lipschitz_maximum(2 * points, residuals).value


def rough(p: Vector, y: Vector, w: Vector | None = None) -> float:
    """Fault: w need not be Lipschitz (the error over exact ties)."""
    return float(np.abs(smooth_calibration_solution(p, y, w)[1]).sum())


def only_upward(p: Vector, y: Vector, w: Vector | None = None) -> float:
    """Fault: w in [0, 1], which sees under-confidence alone."""
    _, residuals, best = smooth_calibration_solution(p, y, w)
    return float(residuals @ np.maximum(best.witness, 0))


def each_row_alone(p: Vector, y: Vector, w: Vector | None = None) -> float:
    """Fault: the mean size of the residuals."""
    return float(np.average(np.abs(y - p), weights=w))


def summed(p: Vector, y: Vector, w: Vector | None = None) -> float:
    return len(p) * smooth_calibration_error(p, y, w)


LAWS: list[tuple[Law, Any]] = [
    (constant_predictor, summed),
    (two_scores, steeper),
    (calibrated_groups, each_row_alone),
    (at_least_mean_residual, only_upward),
    (at_most_merged_residuals, each_row_alone),
    (no_jumps, rough),
    (mirror, only_upward),
]


@pytest.mark.parametrize("law", [law for law, _ in LAWS])
def test_law(law: Law) -> None:
    """The smooth calibration error keeps the law to 1e-12."""
    assert law(smooth_calibration_error) <= 1e-12


@pytest.mark.parametrize(("law", "fault"), LAWS)
def test_law_bites(law: Law, fault: Callable[..., float]) -> None:
    """A planted fault breaks the law by far more than the tolerance."""
    assert law(fault) > 1e-4


# Gradient


def finite_differences(scores: Vector, outcomes: Vector, weights: Vector) -> Vector:
    """Central differences of the error by every score."""
    step = 1e-6
    result = np.empty_like(scores)
    for i in range(len(scores)):
        up, down = scores.copy(), scores.copy()
        up[i] += step
        down[i] -= step
        rise = smooth_calibration_error(up, outcomes, weights)
        result[i] = (rise - smooth_calibration_error(down, outcomes, weights)) / (2 * step)
    return result


@pytest.mark.parametrize("seed", range(8))
def test_gradient_is_that_of_finite_differences(seed: int) -> None:
    """Away from ties the gradient is that of central differences to 5e-9 (piecewise quadratic error)."""
    rng = np.random.default_rng(seed)
    n = 40
    scores = (np.arange(n) + 0.1 + 0.8 * rng.random(n)) / n  # no two closer than 0.2 / n
    scores = rng.permutation(scores**2 if seed % 2 else scores)
    outcomes = (rng.random(n) < [0.5, 0.2, 0.9][seed % 3] * scores + 0.05) * 1.0
    weights = rng.random(n) + 0.1
    value, gradient = smooth_calibration_gradient(scores, outcomes, weights)
    assert value == smooth_calibration_error(scores, outcomes, weights)
    numeric = finite_differences(scores, outcomes, weights)
    assert np.abs(gradient - numeric).max() < 5e-9
    best = smooth_calibration_solution(scores, outcomes, weights)[2]
    fixed_witness = -(weights / weights.sum())[np.argsort(scores)] * best.witness
    assert np.abs(fixed_witness - numeric[np.argsort(scores)]).max() > 1e-4  # forgetting w' would be seen


def test_gradient_of_tied_scores() -> None:
    """Inside a slope of w tied rows have the derivative of each alone; a tie sums to that of the whole."""
    scores = np.array([0.2, 0.2, 0.2, 0.2, 0.4, 0.4, 0.6, 0.6, 0.6, 0.6])
    outcomes = np.array([1.0, 1, 1, 1, 1, 0, 0, 0, 0, 0])
    gradient = smooth_calibration_gradient(scores, outcomes)[1]
    step = 1e-6
    for tie in (0.2, 0.4, 0.6):
        members = scores == tie
        up = smooth_calibration_error(scores + step * members, outcomes)
        down = smooth_calibration_error(scores - step * members, outcomes)
        assert gradient[members].sum() == pytest.approx((up - down) / (2 * step), abs=5e-9)
    alone = finite_differences(scores, outcomes, np.ones(10))
    assert np.abs(gradient - alone)[4:6].max() < 5e-9


# Reference values


def test_golden_values(golden: Callable[[str], Any]) -> None:
    """HiGHS values of the reference file, to 1e-10."""
    reference = golden("smce.json")
    for case in reference["sets"].values():
        value = smooth_calibration_error(np.array(case["conf"]), np.array(case["correct"], dtype=float))
        assert value == pytest.approx(case["smCE_lipschitz_LP"], abs=1e-10)
    for case in reference["small"]:
        value = smooth_calibration_error(np.array(case["v"], dtype=float), np.array(case["y"], dtype=float))
        assert value == pytest.approx(case["smCE_LP"], abs=1e-12)
