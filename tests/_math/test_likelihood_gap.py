"""The log loss that a Lipschitz change of the log-odds can gain."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from calibrant import metrics
from calibrant._math.processing_gap import likelihood_gap


def sample(rng: np.random.Generator, num_samples: int, power: float, *, ties: bool = False) -> tuple:
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
    found = likelihood_gap(*sample(rng, num_samples, power, ties=ties))
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
    p, y = sample(rng, 12, power)
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
    p, y = sample(rng, 80, power)
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


def test_closed_forms() -> None:
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
