"""The world with known posterior, the linear fit, and the PAC-Bayes bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.integrate import dblquad, quad
from scipy.optimize import minimize
from torch.nn import functional

from calibrant._math.focal_map import focal_map_log_odds
from calibrant.losses import focal_loss
from calibrant_lab import theory


def cross_entropy(log_odds: torch.Tensor, outcomes: torch.Tensor) -> torch.Tensor:
    """Of log-odds."""
    return functional.softplus(log_odds, threshold=40) - outcomes * log_odds


def focal(gamma: float) -> theory.generalisation.SampleLoss:
    """The library's focal loss, of log-odds."""

    def loss(log_odds: torch.Tensor, outcomes: torch.Tensor) -> torch.Tensor:
        logits = torch.stack([torch.zeros_like(log_odds), log_odds], 1)
        return focal_loss(logits, outcomes.long(), gamma=gamma, reduction="none")

    return loss


def test_performance_against_another_quadrature() -> None:
    """Confidence, accuracy and cross-entropy are the two-dimensional integrals over features."""
    world = theory.LogisticWorld(num_features=2, signal=2.0)
    found = world.performance(torch.tensor([1.5, 0.8], dtype=torch.float64))

    def integral(function) -> float:
        def inside(b: float, a: float) -> float:
            score, truth = 1.5 * a + 0.8 * b, 1 / (1 + math.exp(-2 * a))
            return function(score, truth) * math.exp(-(a * a + b * b) / 2) / (2 * math.pi)

        # The kink at score 0 is a line; integrate on both sides of it.
        upper, _ = dblquad(inside, -9, 9, lambda a: -1.5 * a / 0.8, lambda _: 30, epsabs=1e-11)
        lower, _ = dblquad(inside, -9, 9, lambda _: -30, lambda a: -1.5 * a / 0.8, epsabs=1e-11)
        return upper + lower

    confidence = integral(lambda t, _: 1 / (1 + math.exp(-abs(t))))
    accuracy = integral(lambda t, p: p if t > 0 else 1 - p)
    surprise = integral(lambda t, p: math.log1p(math.exp(-abs(t))) + max(t, 0) - p * t)
    assert found.confidence == pytest.approx(confidence, abs=1e-7)
    assert found.accuracy == pytest.approx(accuracy, abs=1e-7)
    assert found.cross_entropy == pytest.approx(surprise, abs=1e-7)
    assert found.overconfidence == pytest.approx(confidence - accuracy, abs=1e-7)


def test_performance_against_samples() -> None:
    """The calibration error and the rest agree with a million samples."""
    world = theory.LogisticWorld(num_features=4, signal=1.5)
    weights = torch.tensor([1.0, 1.0, -0.5, 0.3], dtype=torch.float64)
    features, outcomes = world.sample(1_000_000, seed=1)
    scores = features @ weights
    right = ((scores > 0) == (outcomes > 0.5)).double()
    found = world.performance(weights)
    assert abs(found.accuracy - right.mean().item()) < 4 * 0.5e-3
    bins = torch.bucketize(scores.sigmoid(), torch.linspace(0, 1, 101, dtype=torch.float64)[1:-1])
    gaps = torch.zeros(100, dtype=torch.float64).index_add(0, bins, scores.sigmoid() - outcomes)
    assert found.calibration_error == pytest.approx(gaps.abs().sum().item() / 1e6, abs=4e-3)


def test_the_truth_is_calibrated() -> None:
    """The true weights have no error; their accuracy and cross-entropy are one-dimensional integrals."""
    world = theory.LogisticWorld(num_features=3, signal=2.5)
    found = world.performance(torch.tensor([2.5, 0.0, 0.0]))
    assert found.overconfidence == pytest.approx(0, abs=1e-14)
    assert found.calibration_error == pytest.approx(0, abs=1e-14)
    assert found.temperature == pytest.approx(1, abs=1e-12)

    def at(u: float) -> float:
        p = 1 / (1 + math.exp(-2.5 * u))
        return -(p * math.log(p) + (1 - p) * math.log(1 - p)) * math.exp(-u * u / 2) / math.sqrt(2 * math.pi)

    assert found.cross_entropy == pytest.approx(2 * quad(at, 0, 14, epsabs=1e-13)[0], abs=1e-11)


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 4.0])
def test_temperature_undoes_a_factor(factor: float) -> None:
    """Weights that are a multiple of the truth have that multiple as their temperature."""
    world = theory.LogisticWorld(num_features=2, signal=2.0)
    found = world.performance(torch.tensor([2.0 * factor, 0.0]))
    assert found.temperature == pytest.approx(factor, rel=1e-10)
    assert (found.overconfidence > 0) == (factor > 1)
    undone = world.performance(torch.tensor([2.0 * factor, 0.0]), link=lambda t: t / factor)
    assert undone.calibration_error == pytest.approx(0, abs=1e-12)


def test_temperature_against_a_direct_search() -> None:
    """The temperature is that of the least cross-entropy."""
    world = theory.LogisticWorld(num_features=3, signal=2.0)
    weights = torch.tensor([2.0, 1.0, 1.0], dtype=torch.float64)
    found = world.performance(weights)
    least = minimize(lambda b: world.performance(b[0] * weights).cross_entropy, [0.5], tol=1e-12)
    assert 1 / least.x[0] == pytest.approx(found.temperature, rel=1e-4)
    assert world.performance(-weights).temperature == math.inf
    at_best = world.performance(weights / found.temperature)
    assert at_best.temperature == pytest.approx(1, rel=1e-10)
    # Calibrated in the mean only: of this world's line the noise leaves no logistic curve.
    assert 0 < at_best.calibration_error < 0.01


def test_fit_agrees_with_another_optimiser() -> None:
    """Cross-entropy's and focal loss's minima, with a penalty and without, against scipy's BFGS."""
    features, outcomes = theory.LogisticWorld(num_features=4, signal=2.0).sample(300, seed=3)
    for loss, penalty in ((cross_entropy, 0.0), (focal(2.0), 0.0), (focal(0.5), 0.1)):
        found = theory.fit_linear(features, outcomes, loss, penalty=penalty)
        assert found.converged

        def value(w: np.ndarray, loss=loss, penalty=penalty) -> tuple[float, np.ndarray]:
            weights = torch.tensor(w, requires_grad=True)
            total = loss(features @ weights, outcomes).mean() + penalty / 2 * weights.square().sum()
            (slope,) = torch.autograd.grad(total, weights)
            return total.item(), slope.numpy()

        other = minimize(value, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(found.weights.numpy(), other.x, atol=1e-6)


def test_separable_classes_have_no_minimum() -> None:
    """More features than samples: cross-entropy has no minimum, and with a penalty it has one."""
    features, outcomes = theory.LogisticWorld(num_features=30, signal=2.0).sample(20, seed=0)
    assert not theory.fit_linear(features, outcomes, cross_entropy).converged
    assert theory.fit_linear(features, outcomes, cross_entropy, penalty=0.01).converged


def test_overconfidence_of_the_paper_s_argument() -> None:
    """Cross-entropy is right on its own sample, over-confident on new ones; focal loss is so less."""
    world = theory.LogisticWorld(num_features=40, signal=2.0)
    features, outcomes = world.sample(400, seed=7)
    plain = theory.fit_linear(features, outcomes, cross_entropy).weights
    residual = ((features @ plain).sigmoid() - outcomes) * (features @ plain)
    assert residual.mean().item() == pytest.approx(0, abs=1e-9)  # best temperature on the sample: 1
    ours = theory.fit_linear(features, outcomes, focal(1.0)).weights
    assert world.performance(plain).temperature > 1.1
    assert world.performance(ours).overconfidence < world.performance(plain).overconfidence
    mapped = world.performance(ours, link=lambda t: focal_map_log_odds(t, 1.0))
    assert mapped.overconfidence > world.performance(ours).overconfidence


def test_samples_are_repeatable() -> None:
    """The same seed gives the same sample; frequencies are those of the posterior."""
    world = theory.LogisticWorld(num_features=2, signal=2.0)
    first, second = world.sample(50_000, seed=5), world.sample(50_000, seed=5)
    assert first[0].equal(second[0])
    assert first[1].equal(second[1])
    residual = first[1] - (2 * first[0][:, 0]).sigmoid()
    assert abs(residual.mean().item()) < 4 * residual.std().item() / math.sqrt(50_000)


def test_pac_bayes_bound_is_the_least_over_gaussians() -> None:
    """The closed form equals the bound's right side minimised over the noise by search."""
    curvatures = np.array([2.0, 0.1, 0.0])
    found = theory.pac_bayes_bound(
        curvatures.tolist(), risk=0.2, distance=1.5, prior_scale=2.0, num_samples=500, inverse_temperature=40
    )

    def right_side(log_spread: np.ndarray) -> float:
        variances = np.exp(2 * log_spread)
        divergence = (variances / 4 + np.log(4 / variances) - 1).sum() / 2 + 1.5**2 / 8
        risk = 0.2 + (curvatures * variances).sum() / 2
        return float(risk + (divergence + math.log(20)) / 40 + 40 / (8 * 500))

    least = minimize(right_side, np.zeros(3), tol=1e-12)
    assert found.value == pytest.approx(least.fun, abs=1e-9)
    np.testing.assert_allclose(np.log(found.spreads), least.x, atol=1e-4)
    parts = found.risk + found.curvature_price + found.distance_price + found.chance_price
    assert found.value == pytest.approx(parts, rel=1e-15)


def test_pac_bayes_price_of_curvature() -> None:
    """Flat directions are free, and a doubling of a sharp one costs log 2 / (2 lambda)."""

    def price(curvature: float) -> float:
        return theory.pac_bayes_bound(
            [curvature], risk=0, distance=0, prior_scale=1, num_samples=1000, inverse_temperature=100
        ).curvature_price

    assert price(0.0) == 0
    assert price(2e6) - price(1e6) == pytest.approx(math.log(2) / 200, rel=1e-6)


def test_refusals() -> None:
    """Numbers out of range are refused by name."""
    good = {"risk": 0.1, "distance": 1.0, "prior_scale": 1.0, "num_samples": 10}
    for change, message in (
        ({"risk": 1.5}, r"`risk` must lie in \[0, 1\]; got 1\.5"),
        ({"distance": -1.0}, "`distance` must be finite and not negative"),
        ({"prior_scale": 0.0}, "`prior_scale` must be finite and positive"),
        ({"num_samples": 0}, "`num_samples` must be at least 1; got 0"),
        ({"confidence": 1.0}, r"`confidence` must be inside \(0, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            theory.pac_bayes_bound([1.0], **(good | change))
    with pytest.raises(ValueError, match="`curvatures` must exceed"):
        theory.pac_bayes_bound([-5.0], **good)
    with pytest.raises(ValueError, match="`num_features` must be at least 1; got 0"):
        theory.LogisticWorld(num_features=0, signal=1.0)
    with pytest.raises(ValueError, match="`signal` must be finite and positive; got 0"):
        theory.LogisticWorld(num_features=1, signal=0.0)
    world = theory.LogisticWorld(num_features=2, signal=1.0)
    with pytest.raises(ValueError, match=r"`weights` must have shape \(2,\); got \(3,\)"):
        world.performance(torch.ones(3))
    with pytest.raises(ValueError, match="`weights` must be finite and not all zero"):
        world.performance(torch.zeros(2))
    with pytest.raises(ValueError, match="`penalty` must be finite and not negative; got -1"):
        theory.fit_linear(torch.ones(2, 1), torch.ones(2), cross_entropy, penalty=-1)
    with pytest.raises(ValueError, match="`outcomes` must have one entry per row"):
        theory.fit_linear(torch.ones(2, 1), torch.ones(3), cross_entropy)
