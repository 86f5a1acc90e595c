"""The post-processing gap against bounded least squares, closed forms, its own dual and the smooth error."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog, lsq_linear, minimize

from calibrant import metrics
from calibrant._math.lipschitz import smooth_calibration_error
from calibrant._math.processing_gap import likelihood_gap, post_processing_gap

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


# The log loss that a Lipschitz change of the log-odds can gain.


def model(
    rng: np.random.Generator, num_samples: int, power: float, *, ties: bool = False
) -> tuple[Vector, Vector]:
    """Probabilities and outcomes of a model that is wrong by a power."""
    p = rng.beta(2, 1.5, size=num_samples)
    p = np.clip(np.round(p, 1), 0.1, 0.9) if ties else p
    return p, (rng.random(num_samples) < p**power).astype(float)


@pytest.mark.parametrize("num_samples", [1, 2, 30, 2000])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("power", [0.05, 1.0, 6.0])
def test_certified_and_admissible(
    rng: np.random.Generator, num_samples: int, ties: bool, power: float
) -> None:
    """The change keeps its bounds, and the bound by the linear programme is within 1e-9 of its value."""
    found = likelihood_gap(*model(rng, num_samples, power, ties=ties))
    assert np.abs(found.changed).max() <= 4
    assert (np.abs(np.diff(found.changed)) <= np.diff(found.points) * (1 + 1e-9)).all()
    assert 0 <= found.value <= found.upper_bound + 1e-12
    assert found.upper_bound - found.value < 1e-9  # half the digits: the value is flat around the optimum


def test_certified_where_constraints_coincide(rng: np.random.Generator) -> None:
    """Few samples on a coarse grid, certainties among them: no overflow, no NaN, and the bound stays near."""
    for _ in range(100):
        p = rng.integers(0, 17, rng.integers(1, 31)) / 16
        found = likelihood_gap(p, (rng.random(len(p)) < 0.4).astype(float))
        assert found.upper_bound - found.value < 1e-7


@pytest.mark.parametrize("power", [0.3, 3.0])
def test_against_a_general_solver(rng: np.random.Generator, power: float) -> None:
    p, y = model(rng, 12, power)
    w = rng.choice([0.5, 1.0, 2.0], size=12)
    order = np.argsort(p)
    t, y, w = np.log(p / (1 - p))[order], y[order], (w / w.sum())[order]

    def loss(h: np.ndarray) -> float:
        return float(w @ (np.logaddexp(0, t + h) - y * (t + h)))

    def slope(h: np.ndarray) -> np.ndarray:
        return w * (1 / (1 + np.exp(-t - h)) - y)

    steps, d = np.diff(np.eye(12), axis=0), np.diff(t)
    best = minimize(
        loss,
        np.zeros(12),
        jac=slope,
        method="SLSQP",
        bounds=[(-4, 4)] * 12,
        constraints=[
            {"type": "ineq", "fun": lambda h: d - steps @ h, "jac": lambda _: -steps},
            {"type": "ineq", "fun": lambda h: d + steps @ h, "jac": lambda _: steps},
        ],
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    found = likelihood_gap(p[order], y, w)
    assert found.value == pytest.approx(loss(np.zeros(12)) - best.fun, abs=1e-8)  # of SLSQP


@pytest.mark.parametrize("power", [0.2, 0.9, 1.0, 4.0])
def test_sandwich_with_the_smooth_error_of_the_log_odds(rng: np.random.Generator, power: float) -> None:
    """2 smCE*^2 <= pGap <= 4 smCE*, smCE* by a linear programme over weights of slope 1/4 in the log-odds."""
    p, y = model(rng, 80, power)
    order = np.argsort(p)
    p, y = p[order], y[order]
    t = np.log(p / (1 - p))
    steps = np.diff(np.eye(80), axis=0)
    best = linprog(
        -(y - p) / 80,
        A_ub=np.concatenate([steps, -steps]),
        b_ub=np.tile(np.diff(t) / 4, 2),
        bounds=(-1, 1),
    )
    gap = metrics.post_processing_gap(p, y.astype(int), score="nll").item()
    assert 2 * best.fun**2 <= gap <= -4 * best.fun
    assert -best.fun >= metrics.smooth_calibration_error(p, y.astype(int)).item() - 1e-9


def test_closed_forms_of_the_log_loss() -> None:
    """One probability moves to the share found; where that is further than 4, by 4."""
    p = np.full(8, 0.7)
    y = np.array([1.0, 1, 0, 0, 1, 0, 1, 0])
    gain = -0.5 * math.log(0.7 * 0.3) - math.log(2)
    assert likelihood_gap(p, y).value == pytest.approx(gain, abs=1e-10)
    t = math.log(0.01 / 0.99)
    far = likelihood_gap(np.full(3, 0.01), np.ones(3))
    assert far.value == pytest.approx(math.log1p(math.exp(-t)) - math.log1p(math.exp(-t - 4)), abs=1e-9)
    assert likelihood_gap(np.array([0.0, 1.0]), np.array([0.0, 1.0])).value < 1e-9
    silent = likelihood_gap(np.array([0.7, 0.01]), np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    assert silent.value == pytest.approx(likelihood_gap(np.array([0.7]), np.array([1.0])).value, abs=1e-12)
