"""The claims about focal calibration loss that do not hold, and what holds in their place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from calibrant.theory import focal_calibration_minimiser, gradient_factor
from calibrant_lab import theory


def rows(rng: np.random.Generator, count: int, classes: int) -> torch.Tensor:
    """Distributions from nearly certain to nearly uniform."""
    spread = np.exp(rng.uniform(-3, 3, size=(count, 1)))
    draws = rng.gamma(np.broadcast_to(spread, (count, classes))) + 1e-12
    return torch.from_numpy(draws / draws.sum(1, keepdims=True))


@pytest.mark.parametrize("weight", [0.1, 0.5, 1.5, 10.0])
def test_not_strictly_proper(weight: float) -> None:
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


def test_post_processing_gap_can_be_larger() -> None:
    """The printed counter-examples, and the bound that holds in the theorem's place."""
    q = focal_calibration_minimiser([0.8], gamma=2, calibration_weight=0).item()
    for weight, printed in ((0.5, 0.0083), (1.0, 0.0260)):
        gaps = theory.constant_processing_gaps(q, event_rate=0.8, gamma=2, calibration_weight=weight)
        assert gaps.focal < 1e-15
        assert round(gaps.focal_calibration, 4) == printed


def test_post_processing_gap_bound(rng: np.random.Generator) -> None:
    """FCL's gap is never above focal loss's plus the weight times the squared distance's."""
    for _ in range(200):
        prediction, rate = rng.uniform(0.01, 0.99, 2)
        gamma, weight = rng.uniform(0, 5), rng.uniform(0, 5)
        gaps = theory.constant_processing_gaps(
            prediction, event_rate=rate, gamma=gamma, calibration_weight=weight
        )
        assert gaps.focal_calibration <= gaps.bound + 1e-12


@pytest.mark.parametrize("gamma", [0.3, 1.0, 3.0, 5.0])
def test_confidence_theorem_for_two_classes(gamma: float, rng: np.random.Generator) -> None:
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
def test_confidence_theorem_fails_for_many_classes(
    posterior: list[float], gamma: float, weight: float
) -> None:
    """FCL's top probability is further from the truth than focal loss's, though FCL is nearer as a whole."""
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
    """What is no probability is refused."""
    with pytest.raises(ValueError, match=r"`prediction` must be inside \(0, 1\); got 0"):
        theory.constant_processing_gaps(0.0, event_rate=0.5, gamma=1, calibration_weight=1)
    with pytest.raises(ValueError, match=r"row 0 sums to 0\.9"):
        theory.top_errors([[0.5, 0.4]], gamma=1, calibration_weight=1)
