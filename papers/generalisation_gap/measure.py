"""Cross-entropy's over-confidence on new samples and focal loss's compensation, where the truth is known.

The argument of Komisarenko and Kull (2024), section 4.1, swept over sample size, capacity and exponent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant import theory
from calibrant._math.convex_minimum import convex_minimum
from calibrant._math.focal_map import focal_map_log_odds
from calibrant.losses import focal_loss
from calibrant_lab.sweep.kept_runs import shortened
from calibrant_lab.sweep.tasks.simulation import Simulation
from calibrant_lab.sweep.tasks.task import Settings
from papers.generalisation_gap.settings import GAMMAS, SIGNAL


class GeneralisationGap(Simulation):
    """All exponents on one sample."""

    name: ClassVar[str] = "generalisation-gap"
    version: ClassVar[int] = 1
    costly: ClassVar[tuple[str, ...]] = ("num_samples", "num_features")
    defaults: ClassVar[Mapping[str, Any]] = {"num_samples": 800, "num_features": 40}

    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        """Fit and judge."""
        world = theory.LogisticWorld(num_features=settings["num_features"], signal=SIGNAL)
        features, outcomes = world.sample(settings["num_samples"], seed=settings["seed"])
        return {"arms": [_arm(world, features, outcomes, gamma) for gamma in GAMMAS]}


def _arm(world: theory.LogisticWorld, features: Tensor, outcomes: Tensor, gamma: float) -> dict[str, Any]:
    """One loss on one sample; nothing but the fact where it has no minimum."""
    fit = theory.fit_linear(features, outcomes, _focal(gamma))
    if not fit.converged:
        return {"gamma": gamma, "converged": False}
    scores = features @ fit.weights
    mapped = focal_map_log_odds(scores, gamma)
    test = world.performance(fit.weights)
    after = world.performance(fit.weights, link=lambda t: focal_map_log_odds(t, gamma))
    return {
        "gamma": gamma,
        "converged": True,
        "along": fit.weights[0].item(),
        "norm": torch.linalg.vector_norm(fit.weights).item(),
        "train": _on_sample(scores, outcomes),
        "train_mapped": _on_sample(mapped, outcomes),
        "test": _named(test),
        "test_scaled": _named(world.performance(fit.weights, link=lambda t: t / test.temperature)),
        "test_mapped": _named(after),
    }


def _focal(gamma: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Focal loss of log-odds."""

    def loss(log_odds: Tensor, truth: Tensor) -> Tensor:
        logits = torch.stack([torch.zeros_like(log_odds), log_odds], 1)
        return focal_loss(logits, truth.long(), gamma=gamma, reduction="none")

    return loss


def _on_sample(log_odds: Tensor, outcomes: Tensor) -> dict[str, float | None]:
    """Over-confidence and best temperature on the sample itself; none where the sample is separated."""
    right = ((log_odds > 0) == (outcomes > 0.5)).double()
    confidence = log_odds.abs().sigmoid()

    def slopes(inverse: float) -> tuple[float, float]:
        probs = (inverse * log_odds).sigmoid()
        bends = log_odds.square() * probs * (1 - probs)
        return (log_odds * (probs - outcomes)).mean().item(), bends.mean().item()

    inverse = convex_minimum(slopes, 1e-6, 1e6)
    return {
        "accuracy": right.mean().item(),
        "overconfidence": (confidence - right).mean().item(),
        "temperature": 1 / inverse if 1e-6 < inverse < 1e6 else None,
    }


def _named(found: theory.TestPerformance) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in found._asdict().items()}


def theory_of(runs: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the theory adds to the runs: for many samples and features, at their loads and between them.

    What is ``known`` already is given back if it is of the same loads.
    """
    threshold = theory.separability_threshold(SIGNAL)
    loads = sorted({run["num_features"] / run["num_samples"] for run in runs})
    between = [math.sqrt(one * other) for one, other in itertools.pairwise(loads)] if len(loads) > 2 else []
    reached = [load for load in sorted((*loads, *between)) if load < threshold]
    if known and known["limit"]["loads"] == shortened(reached, 8):
        return known
    best = theory.LogisticWorld(num_features=1, signal=SIGNAL).performance(torch.tensor([SIGNAL]))
    closest = {f"{gamma:g}": theory.closest_temperature(gamma, 2).temperature for gamma in GAMMAS[1:]}
    found = {
        "world": {"accuracy": best.accuracy, "cross_entropy": best.cross_entropy},
        "closest": closest,
        "limit": {
            "threshold": threshold,
            "loads": reached,
            "calibrating": [_calibrating(load) for load in reached],
            "arms": [{"gamma": gamma, "each": [_limit(gamma, load) for load in reached]} for gamma in GAMMAS],
        },
    }
    return shortened(found, 8)


@cache
def _limit(gamma: float, load: float) -> dict[str, float | None]:
    """One loss in the limit."""
    found = theory.asymptotic_fit(_focal(gamma), load=load, signal=SIGNAL)
    mapped = found.world.performance(found.weights, link=lambda t: focal_map_log_odds(t, gamma))
    return {
        "alignment": found.alignment,
        "norm": found.norm,
        "train_temperature": found.train.temperature,
        "test_temperature": found.test.temperature,
        "test_overconfidence": found.test.overconfidence,
        "test_calibration_error": found.test.calibration_error,
        "test_cross_entropy": found.test.cross_entropy,
        "scaled_cross_entropy": found.scaled.cross_entropy,
        "mapped_test_overconfidence": mapped.overconfidence,
        "instability": found.instability,
        "least_curvature": found.least_curvature,
    }


@cache
def _calibrating(load: float) -> dict[str, float | None]:
    """The exponent that needs no temperature, and how well calibrated it is."""
    gamma = theory.calibrating_gamma(_focal, load=load, signal=SIGNAL)
    found = theory.asymptotic_fit(_focal(gamma), load=load, signal=SIGNAL)
    return {
        "exponent": gamma,
        "test_calibration_error": found.test.calibration_error,
        "test_overconfidence": found.test.overconfidence,
    }
