"""Focal loss's gradient factor: the published numbers, and automatic differentiation for the rest."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import lambertw

from calibrant import theory
from calibrant.losses import focal_loss, optimal_gamma

Golden = Callable[[str], Any]
GAMMAS = [-0.99, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 20.0, 50.0]


def focal(p: torch.Tensor, gamma: float) -> torch.Tensor:
    """Focal loss of the true class's probability, as it is written."""
    return -((1 - p) ** gamma) * torch.log(p)


@pytest.mark.parametrize(
    ("p", "gamma", "factor"),
    [
        (0.19, 5, 1.0278242528024268),
        (0.2, 5, 0.9869057689330076),
        (0.25, 3, 1.0067179335974539),
        (0.5, 3, 0.38493019270997947),
        (0.5, 1, 0.8465735902799727),
        (0.5, 5, 0.13955424696249147),
        (0.5, 7, 0.0457),
        (0.5, 10, 0.0077),
    ],
)
def test_printed_factors(p: float, gamma: float, factor: float) -> None:
    digits = len(str(factor)) - 2
    tolerance = 1e-14 if digits > 6 else 0.5 * 10**-digits
    assert theory.gradient_factor(p, gamma=gamma).item() == pytest.approx(factor, abs=tolerance)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_factor_is_the_quotient_of_slopes(gamma: float) -> None:
    p = torch.linspace(0.001, 0.999, 301, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(focal(p, gamma).sum(), p)
    factor = theory.gradient_factor(p, gamma=gamma)
    torch.testing.assert_close(factor, -slope * p.detach(), rtol=1e-12, atol=1e-300)
    assert not factor.requires_grad


def test_logit_gradients_of_the_loss(rng: np.random.Generator) -> None:
    logits = torch.from_numpy(rng.normal(size=(50, 4)) * 3).requires_grad_(True)
    labels = torch.from_numpy(rng.integers(0, 4, 50))
    (slope,) = torch.autograd.grad(focal_loss(logits, labels, gamma=2.5, reduction="sum"), logits)
    probs = logits.detach().softmax(-1)
    factor = theory.gradient_factor(probs.gather(1, labels[:, None]), gamma=2.5)
    truth = torch.nn.functional.one_hot(labels, 4)
    torch.testing.assert_close(slope, factor * (probs - truth), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(("gamma", "end"), [(0.5, 0.0), (0.0, 1.0), (-0.5, math.inf)])
def test_ends(gamma: float, end: float) -> None:
    """At 0 the factor is 1, at 1 its limit; near 1 it follows (1 + gamma) (1 - p)^gamma."""
    assert theory.gradient_factor([0.0, 1.0], gamma=gamma).tolist() == [1.0, end]
    miss = 2.0**-40
    expected = (1 + gamma) * miss**gamma
    assert theory.gradient_factor(1 - miss, gamma=gamma).item() == pytest.approx(expected, rel=1e-10)


def test_types_and_shapes() -> None:
    """A number gives a scalar, a table a table, and half precision comes back as such."""
    assert theory.gradient_factor(0.3, gamma=1).shape == ()
    table = torch.full((2, 3), 0.5, dtype=torch.float16)
    assert theory.gradient_factor(table, gamma=1).dtype == torch.float16
    assert theory.gradient_factor(np.zeros((2, 3), dtype=np.int64), gamma=1).dtype == torch.float64


@pytest.mark.parametrize("gamma", [gamma for gamma in GAMMAS if gamma != 0])
def test_one_crossing(gamma: float) -> None:
    """Before the threshold g is on one side of 1, behind it on the other; it turns where it is extreme."""
    p0, turn = theory.gradient_threshold(gamma=gamma), theory.gradient_turning_point(gamma=gamma)
    grid = torch.cat([torch.logspace(-12, -2, 400), torch.linspace(0.01, 0.99999, 4000)]).double()
    above = (theory.gradient_factor(grid, gamma=gamma) - 1) * math.copysign(1, gamma)
    clear = (grid - p0).abs() > 1e-9
    assert bool((above[(grid < p0) & clear] > 0).all())
    assert bool((above[(grid > p0) & clear] < 0).all())
    assert 0 < turn.probability < p0 < 1
    extreme = (above + 1).max().item() if gamma > 0 else 1 - above.max().item()
    assert turn.factor == pytest.approx(extreme, rel=1e-4)


def test_printed_turning_points() -> None:
    """Where the factor is largest: the published places, and 1/e^2 exactly for exponent 1."""
    found = [theory.gradient_turning_point(gamma=gamma).probability for gamma in (1, 2, 3, 5)]
    assert [round(each, 4) for each in found] == [0.1353, 0.1041, 0.0855, 0.0639]
    assert found[0] == pytest.approx(math.exp(-2), abs=1e-15)


def test_threshold_inverts_optimal_gamma() -> None:
    """The threshold of gamma*(p0) is p0, and the threshold falls with gamma through 1/2 at zero."""
    for p0 in (0.001, 0.01, 0.1, 0.19, 0.3, 0.45, 0.49, 0.499):
        assert theory.gradient_threshold(gamma=optimal_gamma(p0)) == pytest.approx(p0, abs=1e-10)
    found = [theory.gradient_threshold(gamma=gamma) for gamma in GAMMAS]
    assert all(first > second for first, second in itertools.pairwise(found))
    assert theory.gradient_threshold(gamma=0) == 0.5
    assert theory.gradient_threshold(gamma=1e-9) == pytest.approx(0.5, abs=1e-8)


@pytest.mark.parametrize(
    ("p0", "gamma"),
    [
        (0.05, 37.844779),
        (0.1, 14.923993),
        (0.19, 5.337039),
        (0.2, 4.850554),
        (0.25, 3.070227),
        (0.3, 1.957170),
        (0.4, 0.680508),
        (0.45, 0.292657),
    ],
)
def test_printed_exponents(p0: float, gamma: float) -> None:
    """The lower branch has the printed exponents below 1/2; the principal branch gives zero, not less."""
    roots = theory.lambert_branches(p0)
    assert round(roots.lower, 6) == gamma
    assert abs(roots.principal) < 1e-12
    assert theory.gradient_factor(p0, gamma=roots.lower).item() == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("p0", [0.001, 0.05, 0.3, 0.45, 0.55, 0.7, 0.9])
def test_branches_are_the_published_formula(p0: float) -> None:
    a, b = 1 - p0, p0 * math.log(p0)
    argument = -(a ** (1 - a / b)) / b * math.log(a)
    for branch, found in (
        (0, theory.lambert_branches(p0).principal),
        (-1, theory.lambert_branches(p0).lower),
    ):
        expected = a / b + (lambertw(argument, branch) / math.log(a)).real
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_branches_meet_at_one_half() -> None:
    """At 1/2 W's argument is -1/e and both branches are zero; above, the principal one is negative."""
    half = theory.lambert_branches(0.5)
    assert half.principal == pytest.approx(0, abs=1e-7)
    assert half.lower == pytest.approx(0, abs=1e-7)
    above = theory.lambert_branches(0.75)
    assert above.lower == pytest.approx(0, abs=1e-12)
    assert above.principal < 0
    assert theory.gradient_threshold(gamma=above.principal) == pytest.approx(0.75, abs=1e-12)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_curvature_in_the_logit(gamma: float) -> None:
    t = torch.linspace(-8, 8, 101, dtype=torch.float64, requires_grad=True)
    miss = (-t).sigmoid()
    values = miss**gamma * -torch.nn.functional.logsigmoid(t)
    (slope,) = torch.autograd.grad(values.sum(), t, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), t)
    found = theory.logit_curvature(t.detach().sigmoid(), gamma=gamma)
    torch.testing.assert_close(found, bend, rtol=2e-8, atol=1e-13)
    assert theory.logit_curvature([0.0, 1.0], gamma=gamma).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("gamma", GAMMAS)
def test_convexity_in_the_logit(gamma: float) -> None:
    """Convex throughout for exponents up to zero; else from the threshold on, and not before."""
    threshold = theory.logit_convexity_threshold(gamma=gamma)
    grid = torch.cat([torch.logspace(-12, -2, 400), torch.linspace(0.01, 0.999, 2000)]).double()
    convex = theory.logit_curvature(grid, gamma=gamma) >= 0
    assert bool((convex == (grid >= threshold)).all())
    assert (threshold > 0) == (gamma > 0)


def test_flatter_only_where_sure() -> None:
    """At even odds focal loss bends more than cross-entropy up to exponent 4.26, at 99 % much less."""
    excess = brentq(lambda gamma: theory.logit_curvature(0.5, gamma=gamma).item() - 0.25, 1, 9)
    assert excess == pytest.approx(4.26, abs=0.005)
    assert theory.logit_curvature(0.99, gamma=1).item() < 0.05 * theory.logit_curvature(0.99, gamma=0).item()


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0, 50.0])
def test_implied_penalty(gamma: float) -> None:
    """It is focal loss less cross-entropy, and least where g = 1."""
    p = torch.linspace(0.0005, 0.9995, 2000, dtype=torch.float64)
    penalty = theory.implied_penalty(p, gamma=gamma)
    torch.testing.assert_close(penalty, focal(p, gamma) - focal(p, 0.0), rtol=1e-10, atol=1e-14)
    least = p[penalty.argmin()].item()
    assert least == pytest.approx(theory.gradient_threshold(gamma=gamma), abs=5e-4)
    assert theory.implied_penalty([0.0, 1.0], gamma=gamma).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("binary", [False, True])
def test_implied_weight_decay_equals_the_rates(binary: bool, rng: np.random.Generator) -> None:
    """With this decay cross-entropy changes the norm of the weights as fast as focal loss."""
    features = torch.from_numpy(rng.normal(size=(60, 5)))
    labels = torch.from_numpy(rng.integers(0, 2 if binary else 3, 60))
    weights = torch.from_numpy(rng.normal(size=(5, 1 if binary else 3))).requires_grad_(True)

    def radial(gamma: float) -> float:
        scores = features @ weights
        logits = torch.cat([torch.zeros_like(scores), scores], 1) if binary else scores
        (slope,) = torch.autograd.grad(focal_loss(logits, labels, gamma=gamma), weights)
        return (slope * weights.detach()).sum().item()

    norm = weights.detach().norm().item()
    scores = (features @ weights).detach()
    found = theory.implied_weight_decay(
        scores[:, 0] if binary else scores, labels, gamma=2, weight_norm=norm
    ).item()
    assert radial(0) + found * norm**2 == pytest.approx(radial(2), rel=1e-10)
    shifted = scores + 7.0
    if not binary:
        again = theory.implied_weight_decay(shifted, labels, gamma=2, weight_norm=norm).item()
        assert again == pytest.approx(found, rel=1e-10)


def test_implied_weight_decay_at_extreme_logits() -> None:
    for sign in (1, -1):
        found = theory.implied_weight_decay([sign * 800.0, 0.0], [1, 1], gamma=0.5, weight_norm=1.0)
        assert math.isfinite(found.item())


def test_exponents_of_the_authors_code(golden: Golden) -> None:
    """The lower branch agrees with the reference's code to the 1e-8 that its jitter leaves."""
    for p0, gamma in golden("gamma_star.json")["table"]:
        assert theory.lambert_branches(p0).lower == pytest.approx(gamma, rel=1e-8)
        assert theory.gradient_threshold(gamma=gamma) == pytest.approx(p0, rel=1e-8)
