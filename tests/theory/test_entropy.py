"""Focal loss and entropy: bounds for every exponent, and where the minimiser is the less certain one."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from calibrant import theory
from calibrant.losses import optimal_gamma


def rows(rng: np.random.Generator, count: int, classes: int) -> torch.Tensor:
    """Distributions from nearly certain to nearly uniform."""
    spread = np.exp(rng.uniform(-4, 4, size=(count, 1)))
    draws = rng.gamma(np.broadcast_to(spread, (count, classes))) + 1e-30
    return torch.from_numpy(draws / draws.sum(1, keepdims=True))


def entropy(probs: torch.Tensor) -> torch.Tensor:
    return torch.distributions.Categorical(probs=probs).entropy()


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("gamma", [0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 5.0, 50.0])
def test_bounds_hold_for_positive_exponents(gamma: float, classes: int, rng: np.random.Generator) -> None:
    """Focal loss, the tangent's bound and the entropy's stand in that order, also below exponent one."""
    found = theory.entropy_bound(rows(rng, 2000, classes), rows(rng, 2000, classes), gamma=gamma)
    slack = 1e-12 * (1 + found.cross_entropy)
    assert bool((found.focal >= found.tangent_bound - slack).all())
    assert bool((found.tangent_bound >= found.entropy_bound - slack).all())


def test_parts_by_hand() -> None:
    found = theory.entropy_bound([[0.25, 0.75]], [[0.4, 0.6]], gamma=2.0)
    cross = -0.25 * math.log(0.4) - 0.75 * math.log(0.6)
    assert found.cross_entropy.item() == pytest.approx(cross, rel=1e-14)
    focal = -0.25 * 0.36 * math.log(0.4) - 0.75 * 0.16 * math.log(0.6)
    assert found.focal.item() == pytest.approx(focal, rel=1e-14)
    assert found.tangent_bound.item() == pytest.approx(cross - 2 * math.log(0.4) * math.log(0.6), rel=1e-14)
    spread = -0.4 * math.log(0.4) - 0.6 * math.log(0.6)
    assert found.entropy_bound.item() == pytest.approx(cross - 2 * spread, rel=1e-14)


@pytest.mark.parametrize("gamma", [-0.9, -0.5, -0.1])
def test_negative_exponents(gamma: float, rng: np.random.Generator) -> None:
    found = theory.entropy_bound(rows(rng, 2000, 3), rows(rng, 2000, 3), gamma=gamma)
    finite = found.focal < torch.inf
    assert bool((found.focal >= found.tangent_bound - 1e-12 * (1 + found.focal))[finite].all())
    even = theory.entropy_bound([[0.5, 0.5]], [[0.5, 0.5]], gamma=gamma)
    assert even.focal.item() < even.entropy_bound.item()


def test_constant_is_the_best() -> None:
    """No smaller multiple of the entropy will do: the quotient comes as near to gamma as wanted."""
    quotients = []
    for q in (1e-2, 1e-6, 1e-40, 1e-300):
        found = theory.entropy_bound([[1.0, 0.0]], [[q, 1 - q]], gamma=3.0)
        gain = -math.log(q) * -math.expm1(3 * math.log1p(-q))  # CE - FL without cancellation
        quotients.append(gain / (-q * math.log(q) - (1 - q) * math.log1p(-q)))
        assert found.focal.item() == pytest.approx(-math.log(q) * (1 - q) ** 3)
    assert quotients == sorted(quotients)
    assert 2.99 < quotients[-1] < 3


def test_corners_of_the_bound() -> None:
    found = theory.entropy_bound([[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]], gamma=2.0)
    assert found.focal.tolist() == [math.inf, 0.0]
    assert found.entropy_bound.tolist() == [math.inf, 0.0]
    assert not any(each.isnan().any() for each in found)


@pytest.mark.parametrize("gamma", [0.1, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_few_classes_gain_entropy(classes: int, gamma: float, rng: np.random.Generator) -> None:
    """With two classes, and as far as was looked with three, the minimiser's entropy is the higher one."""
    assert bool((theory.entropy_shift(rows(rng, 2000, classes), gamma=gamma) >= -1e-12).all())


@pytest.mark.parametrize("classes", [4, 5, 10])
def test_many_classes_lose_entropy(classes: int) -> None:
    """Below gamma*(1/(K-1)) an all but impossible class and equal others break the claim, not above."""
    critical = optimal_gamma(1 / (classes - 1))
    posterior = torch.full((1, classes), 1 / (classes - 1), dtype=torch.float64)
    posterior[0, -1] = 1e-9
    assert theory.entropy_shift(posterior, gamma=0.99 * critical).item() < 0
    assert theory.entropy_shift(posterior, gamma=1.01 * critical).item() > 0


@pytest.mark.parametrize("classes", [4, 5, 6, 8])
def test_from_the_critical_exponent_on(classes: int, rng: np.random.Generator) -> None:
    """From gamma*(1/(K-1)) on no posterior was found to lose entropy."""
    critical = optimal_gamma(1 / (classes - 1))
    near = 1 + 0.2 * rng.normal(size=(2000, classes))
    near[:, 0] = np.exp(rng.uniform(-14, -1, size=2000))
    near = np.abs(near) / np.abs(near).sum(1, keepdims=True)
    posteriors = torch.cat([rows(rng, 2000, classes), torch.from_numpy(near)])
    for factor in (1.0, 1.2, 2.0):
        assert bool((theory.entropy_shift(posteriors, gamma=factor * critical) >= -1e-12).all())


def test_majorisation_below_the_turning_point() -> None:
    """Where every probability of the minimiser lies below g's turning point it is the more certain one."""
    turn = theory.gradient_turning_point(gamma=1.0).probability
    minimiser = torch.linspace(0.2 * turn, 0.95 * turn, 20, dtype=torch.float64)
    minimiser = minimiser / minimiser.sum()
    assert minimiser.max() < turn
    posterior = theory.focal_calibration_map(minimiser[None], gamma=1.0)
    assert theory.entropy_shift(posterior, gamma=1.0).item() < 0
    assert bool((minimiser.flip(0).cumsum(0) >= posterior[0].flip(0).cumsum(0)).all())


def test_printed_overconfident_minimiser() -> None:
    """A hundred classes, truth 0.2: the minimiser says 0.2131 and has the lower entropy."""
    posterior = torch.tensor([[0.2] + 99 * [0.8 / 99]], dtype=torch.float64)
    minimiser = theory.inverse_focal_calibration_map(posterior, gamma=1.0)
    assert round(minimiser[0, 0].item(), 4) == 0.2131
    shift = theory.entropy_shift(posterior, gamma=1.0)
    torch.testing.assert_close(shift, entropy(minimiser) - entropy(posterior), rtol=1e-9, atol=0)


@pytest.mark.parametrize("weight", [1e-3, 0.5, 2.0, 100.0])
def test_entropy_regularised_minimum(weight: float, rng: np.random.Generator) -> None:
    posterior = rows(rng, 50, 6).clamp(min=1e-6)
    posterior = posterior / posterior.sum(-1, keepdim=True)
    q = theory.entropy_regularised_minimiser(posterior, weight=weight)
    torch.testing.assert_close(q.sum(-1), torch.ones(50, dtype=torch.float64), rtol=1e-14, atol=0)
    level = posterior / q - weight * q.log()
    torch.testing.assert_close(level, level[:, :1].expand(50, 6), rtol=1e-11, atol=1e-12)


def test_entropy_regularised_binary_by_search() -> None:
    def objective(q: float) -> float:
        cross = -0.8 * math.log(q) - 0.2 * math.log(1 - q)
        return cross + 2 * (q * math.log(q) + (1 - q) * math.log(1 - q))

    best = minimize_scalar(objective, bounds=(0.5, 0.8), method="bounded", options={"xatol": 1e-9}).x
    found = theory.entropy_regularised_minimiser([[0.8, 0.2]], weight=2.0)[0, 0].item()
    assert found == pytest.approx(best, abs=1e-6)
    focal = theory.inverse_focal_calibration_map([[0.8, 0.2]], gamma=2.0)[0, 0].item()
    assert focal - found > 0.02


def test_entropy_regularised_limits() -> None:
    posterior = torch.tensor([[0.7, 0.3, 0.0]], dtype=torch.float64)
    assert theory.entropy_regularised_minimiser(posterior, weight=0.0).equal(posterior)
    much = theory.entropy_regularised_minimiser(posterior, weight=1e6)
    torch.testing.assert_close(much, torch.full((1, 3), 1 / 3, dtype=torch.float64), rtol=1e-5, atol=0)
    assert theory.entropy_regularised_minimiser(posterior, weight=0.1)[0, 2].item() > 0
