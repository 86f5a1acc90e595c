"""Focal calibration loss: its minimiser and its map."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from calibrant import theory
from calibrant.losses import focal_calibration_loss

Golden = Callable[[str], Any]
OPTIONS = [(0.0, 0.5), (0.5, 0.0), (0.5, 0.1), (1.0, 0.5), (2.0, 1.5), (5.0, 4.5), (20.0, 0.1), (50.0, 10.0)]


def rows(rng: np.random.Generator, count: int, classes: int) -> torch.Tensor:
    """Distributions from nearly certain to nearly uniform."""
    spread = np.exp(rng.uniform(-3, 3, size=(count, 1)))
    draws = rng.gamma(np.broadcast_to(spread, (count, classes))) + 1e-12
    return torch.from_numpy(draws / draws.sum(1, keepdims=True))


def binary_minimiser(p: float, gamma: float, weight: float) -> float:
    """Root of the derivative of the risk, written out for two classes."""

    def slope(q: float) -> float:
        def f(v: float) -> float:
            return (1 - v) ** gamma / v - gamma * (1 - v) ** (gamma - 1) * math.log(v)

        return -p * f(q) + (1 - p) * f(1 - q) + 4 * weight * (q - p)

    return float(brentq(slope, 1e-9, 1 - 1e-9, xtol=1e-15, rtol=1e-14))


def test_minimisers_computed_elsewhere(golden: Golden) -> None:
    """The reference values, to the 1e-8 that their own search reaches, and a root search to 1e-12."""
    for case in golden("theory.json")["fcl_argmin"]:
        gamma, weight = case["gamma"], case["lam"]
        found = theory.focal_calibration_minimiser([case["p"]], gamma=gamma, calibration_weight=weight).item()
        assert found == pytest.approx(case["q"], abs=1e-8)
        assert found == pytest.approx(binary_minimiser(case["p"], gamma, weight), abs=1e-12)


def test_printed_minimisers() -> None:
    """Of p = 0.8 and gamma = 2 over the weights, and the case of three classes, to the digits printed."""
    printed = {0: 0.62661, 0.1: 0.63893, 0.5: 0.67442, 1: 0.70108, 1.5: 0.71808, 4.5: 0.75882, 10: 0.77813}
    for weight, q in printed.items():
        found = theory.focal_calibration_minimiser([0.8], gamma=2, calibration_weight=weight).item()
        assert round(found, 5) == q
    three = theory.focal_calibration_minimiser([[0.55, 0.30, 0.15]], gamma=2, calibration_weight=0.5)
    assert [round(each, 4) for each in three[0].tolist()] == [0.4736, 0.3287, 0.1977]


@pytest.mark.parametrize(("gamma", "weight"), OPTIONS)
@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_map_and_minimiser_are_inverse(
    classes: int, gamma: float, weight: float, rng: np.random.Generator
) -> None:
    """The closed form leads back to the posterior; order, and the loss's stationarity, included."""
    posterior = rows(rng, 100, classes)
    q = theory.focal_calibration_minimiser(posterior, gamma=gamma, calibration_weight=weight)
    back = theory.focal_calibration_loss_map(q, gamma=gamma, calibration_weight=weight)
    torch.testing.assert_close(back, posterior, rtol=1e-9, atol=1e-12)
    order = posterior.argsort(-1)
    assert bool((q.gather(-1, order).diff() >= -1e-14).all())


@pytest.mark.parametrize(("gamma", "weight"), OPTIONS)
def test_the_loss_is_least_there(gamma: float, weight: float, rng: np.random.Generator) -> None:
    """The library's own loss, in expectation, has no slope at the minimiser and rises around it."""
    posterior = rows(rng, 20, 5).clamp(min=1e-3)
    posterior = posterior / posterior.sum(-1, keepdim=True)
    best = theory.focal_calibration_minimiser(posterior, gamma=gamma, calibration_weight=weight)

    def risk(logits: torch.Tensor) -> torch.Tensor:
        values = [
            focal_calibration_loss(
                logits,
                torch.full((20,), label),
                gamma=gamma,
                calibration_weight=weight,
                reduction="none",
            )
            for label in range(5)
        ]
        return (torch.stack(values, 1) * posterior).sum(1)

    logits = best.log().requires_grad_(True)
    (slope,) = torch.autograd.grad(risk(logits).sum(), logits)
    assert slope.abs().max().item() < 1e-12
    own = theory.focal_calibration_risk(posterior, best, gamma=gamma, calibration_weight=weight)
    torch.testing.assert_close(own, risk(best.log()), rtol=1e-12, atol=1e-15)
    for _ in range(5):
        moved = best.log() + 0.05 * torch.from_numpy(rng.normal(size=(20, 5)))
        assert bool((risk(moved) >= risk(best.log())).all())


def test_limits_of_the_map() -> None:
    """Without weight the focal calibration map; with gamma 0 or much weight the identity."""
    probs = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    plain = theory.focal_calibration_loss_map(probs, gamma=2, calibration_weight=0)
    torch.testing.assert_close(plain, theory.focal_calibration_map(probs, gamma=2), rtol=1e-14, atol=0)
    proper = theory.focal_calibration_loss_map(probs, gamma=0, calibration_weight=0.7)
    torch.testing.assert_close(proper, probs, rtol=1e-14, atol=0)
    heavy = theory.focal_calibration_loss_map(probs, gamma=2, calibration_weight=1e9)
    torch.testing.assert_close(heavy, probs, rtol=1e-8, atol=0)


def test_corners() -> None:
    posterior = torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0]], dtype=torch.float64)
    for function in (theory.focal_calibration_minimiser, theory.focal_calibration_loss_map):
        found = function(posterior, gamma=3, calibration_weight=0.5)
        torch.testing.assert_close(found, posterior, rtol=1e-14, atol=0)
    assert theory.focal_calibration_minimiser([0.0, 1.0], gamma=3, calibration_weight=0.5).tolist() == [0, 1]
    seldom = theory.focal_calibration_minimiser([[0.7, 0.3, 0.0]], gamma=3, calibration_weight=0.5)
    assert seldom[0, 2].item() == 0
    assert seldom[0, 0].item() == pytest.approx(binary_minimiser(0.7, 3, 0.5), abs=1e-12)


@pytest.mark.parametrize(("gamma", "weight"), [(0.5, 0.3), (2.0, 0.5), (5.0, 4.5), (0.0, 2.0)])
def test_phi(gamma: float, weight: float) -> None:
    """It is minus the slope of FL + weight v^2, falls strictly, and has the root."""
    v = torch.linspace(0.001, 0.999, 999, dtype=torch.float64, requires_grad=True)
    value = -((1 - v) ** gamma) * v.log() + weight * v.square()
    (slope,) = torch.autograd.grad(value.sum(), v)
    found = theory.focal_calibration_phi(v, gamma=gamma, calibration_weight=weight)
    torch.testing.assert_close(found, -slope, rtol=1e-10, atol=1e-12)
    assert bool((found.diff() < 0).all())
    root = theory.focal_calibration_root(gamma=gamma, calibration_weight=weight)
    assert root is not None
    at_root = theory.focal_calibration_phi(root, gamma=gamma, calibration_weight=weight).item()
    assert at_root == pytest.approx(0, abs=1e-11)


def test_where_phi_has_no_root() -> None:
    """The claim of a root for all options fails for gamma 0 up to weight 1/2, and without weight."""
    assert theory.focal_calibration_root(gamma=0, calibration_weight=0.5) is None
    assert theory.focal_calibration_root(gamma=2, calibration_weight=0) is None
    for weight in (0.1, 0.5):
        near_one = theory.focal_calibration_phi(1 - 1e-12, gamma=0, calibration_weight=weight).item()
        assert near_one == pytest.approx(1 - 2 * weight, abs=1e-10)
    root = theory.focal_calibration_root(gamma=0, calibration_weight=2.0)
    assert root == pytest.approx(0.5, abs=1e-15)


def test_distance_falls_with_the_weight(rng: np.random.Generator) -> None:
    posterior = rows(rng, 200, 6)
    for gamma in (0.3, 1.0, 4.0):
        before = torch.full((200,), torch.inf, dtype=torch.float64)
        for weight in (0.0, 0.1, 0.5, 1.5, 5.0):
            q = theory.focal_calibration_minimiser(posterior, gamma=gamma, calibration_weight=weight)
            distance = (q - posterior).norm(dim=-1)
            assert bool((distance <= before + 1e-12).all())
            before = distance
