"""Focal loss is a proper loss of the mapped probabilities."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import losses, theory

Golden = Callable[[str], Any]
GAMMAS = [-0.99, -0.5, 0.0, 0.5, 3.0, 50.0]


def test_proper_losses_are_the_references(golden: Golden) -> None:
    """Every class of every reference row, to 1e-10."""
    for case in golden("focal_map.json")["inverse"]:
        found = theory.proper_focal_losses([case["p"]], gamma=case["gamma"])[0]
        expected = torch.tensor(case["properized_loss_per_class"], dtype=torch.float64)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("num_classes", [2, 3, 50])
def test_composition(gamma: float, num_classes: int, rng: np.random.Generator) -> None:
    q = torch.from_numpy(rng.dirichlet(np.full(num_classes, 2.0), size=50))
    mapped = theory.focal_calibration_map(q, gamma=gamma)
    found = theory.proper_focal_losses(mapped, gamma=gamma)
    expected = theory.focal_losses(q, gamma=gamma)
    tolerance = 1e-10 if gamma > -0.9 else 1e-9  # rounding is amplified by 1 / (1 + gamma)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=1e-300)


def test_focal_losses_are_the_losses(rng: np.random.Generator) -> None:
    q = torch.from_numpy(rng.dirichlet(np.ones(4), size=20))
    for function, loss in (
        (theory.focal_losses, losses.focal_loss),
        (theory.proper_focal_losses, losses.proper_focal_loss),
    ):
        table = function(q, gamma=2.0)
        for label in range(4):
            labels = torch.full((20,), label)
            expected = loss(q.log(), labels, gamma=2.0, reduction="none")
            torch.testing.assert_close(table[:, label], expected, rtol=1e-11, atol=0)


def test_events_and_corners() -> None:
    """An event is two classes; a class of probability zero has infinite loss, certainty none."""
    events = theory.proper_focal_losses([0.0, 0.3, 1.0], gamma=2.0)
    rows = theory.proper_focal_losses([[1.0, 0.0], [0.7, 0.3], [0.0, 1.0]], gamma=2.0)
    torch.testing.assert_close(events, rows, rtol=1e-12, atol=0)
    assert events[0].tolist() == [0.0, torch.inf]
    assert theory.focal_losses([0.0], gamma=1.0).tolist() == [[0.0, torch.inf]]


def test_proper_part_crosses_focal_loss_at_one_half() -> None:
    """Two classes: below focal loss where the true class is below one half, above it above."""
    low, high = torch.linspace(0.01, 0.49, 49), torch.linspace(0.51, 0.99, 49)
    for gamma in (0.5, 3.0):
        for event, sign in ((low, -1), (high, 1)):
            difference = theory.proper_focal_losses(event, gamma=gamma) - theory.focal_losses(
                event, gamma=gamma
            )
            assert bool((sign * difference[:, 1] > 0).all())


@pytest.mark.parametrize("gamma", GAMMAS)
def test_weight_gives_both_derivatives(gamma: float) -> None:
    """The derivatives by p are -(1 - p) w and p w, by finite differences; w is positive and symmetric."""
    p = torch.linspace(0.02, 0.98, 25, dtype=torch.float64)
    weight = theory.proper_focal_weight(p, gamma=gamma)
    step = 1e-5
    slopes = (
        theory.proper_focal_losses(p + step, gamma=gamma) - theory.proper_focal_losses(p - step, gamma=gamma)
    ) / (2 * step)
    tolerance = 5e-6 if gamma > -0.9 else 1e-4  # the inverse map bends a hundred times as fast
    torch.testing.assert_close(slopes[:, 1], -(1 - p) * weight, rtol=tolerance, atol=1e-12)
    torch.testing.assert_close(slopes[:, 0], p * weight, rtol=tolerance, atol=1e-12)
    assert bool((weight > 0).all())
    torch.testing.assert_close(weight, weight.flip(0), rtol=1e-9, atol=0)


def test_weight_of_cross_entropy() -> None:
    """For gamma 0 the weight is 1 / (p (1 - p)), next to certainty too."""
    p = torch.tensor([1e-12, 0.2, 0.9, 1 - 1e-9], dtype=torch.float64)
    torch.testing.assert_close(theory.proper_focal_weight(p, gamma=0), 1 / (p * (1 - p)), rtol=1e-9, atol=0)
