"""Linear models fitted to samples of a world whose truth is known, with every exponent of focal loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant._math.convex_minimum import convex_minimum
from calibrant.losses import focal_loss
from calibrant_lab import theory
from calibrant_lab.sweep.tasks.task import Settings, Simulation

GAMMAS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0)
SIGNAL = 2.0
QUANTITIES = ("train_temperature", "test_temperature", "test_overconfidence", "test_calibration_error")


class GeneralisationGap(Simulation):
    """All exponents on one sample."""

    name: ClassVar[str] = "generalisation-gap"
    version: ClassVar[int] = 1
    costly: ClassVar[tuple[str, ...]] = ("num_samples", "num_features")
    defaults: ClassVar[Mapping[str, Any]] = {"num_samples": 800, "num_features": 40}

    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        """By quantity, a number for each exponent; None where the fit has no minimum."""
        world = theory.LogisticWorld(num_features=settings["num_features"], signal=SIGNAL)
        features, outcomes = world.sample(settings["num_samples"], seed=settings["seed"])
        fits = [_fitted(world, features, outcomes, gamma) for gamma in GAMMAS]
        load = settings["num_features"] / settings["num_samples"]
        return {
            **{name: [fit.get(name) for fit in fits] for name in QUANTITIES},
            "limit_temperature": [_limit(gamma, load) for gamma in GAMMAS],
        }


def _fitted(
    world: theory.LogisticWorld, features: Tensor, outcomes: Tensor, gamma: float
) -> dict[str, float]:
    """One loss on one sample; nothing if it has no minimum, or weights that point the wrong way."""
    fit = theory.fit_linear(features, outcomes, _focal(gamma))
    if not fit.converged:
        return {}
    test = world.performance(fit.weights)
    if not 0 < test.temperature < float("inf"):
        return {}
    return {
        "train_temperature": _best_temperature(features @ fit.weights, outcomes),
        "test_temperature": test.temperature,
        "test_overconfidence": test.overconfidence,
        "test_calibration_error": test.calibration_error,
    }


def _focal(gamma: float) -> Callable[[Tensor, Tensor], Tensor]:

    def loss(log_odds: Tensor, truth: Tensor) -> Tensor:
        logits = torch.stack([torch.zeros_like(log_odds), log_odds], 1)
        return focal_loss(logits, truth.long(), gamma=gamma, reduction="none")

    return loss


def _best_temperature(log_odds: Tensor, outcomes: Tensor) -> float:
    """The temperature that is most likely on the sample itself."""

    def slopes(inverse: float) -> tuple[float, float]:
        probs = (inverse * log_odds).sigmoid()
        bends = log_odds.square() * probs * (1 - probs)
        return (log_odds * (probs - outcomes)).mean().item(), bends.mean().item()

    return 1 / convex_minimum(slopes, 1e-6, 1e6)


@cache
def _limit(gamma: float, load: float) -> float | None:
    """The temperature on new samples with infinitely many samples and features; None if they separate."""
    if load >= theory.separability_threshold(SIGNAL):
        return None
    return theory.asymptotic_fit(_focal(gamma), load=load, signal=SIGNAL).test.temperature
