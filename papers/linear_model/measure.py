"""A linear model on two clusters per class with flipped labels: cross-entropy against focal loss.

The experiment of Mukhoti et al. (2020), appendix G, with the true probabilities beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from calibrant import theory
from calibrant._math.shapes import Float
from calibrant.losses import focal_loss
from calibrant.metrics import expected_calibration_error
from calibrant_lab.sweep.tasks.simulation import Simulation
from calibrant_lab.sweep.tasks.task import Settings
from papers.linear_model.settings import DEFAULT, GAMMAS, PRIOR_SCALE, SPREADS, Setting

TEST_SEED = 10_000


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Points, labels as they are after flipping, and how probable class 1 truly is."""

    points: Float[ndarray, "N 2"]
    labels: Float[ndarray, " N"]
    posterior: Float[ndarray, " N"]


def draw(setting: Setting, num_samples: int, seed: int) -> Sample:
    """Class 1 around (1, 1) and (1, -1), class 0 around (-1, 1) and (-1, -1); some labels flipped."""
    generator = np.random.default_rng(seed)
    clean = generator.random(num_samples) < 0.5
    centre = np.stack([np.where(clean, 1.0, -1.0), generator.choice([-1.0, 1.0], num_samples)], axis=1)
    points = centre + setting.spread * generator.normal(size=(num_samples, 2))
    labels = clean ^ (generator.random(num_samples) < setting.flipped)
    sure = 1 / (1 + np.exp(-2 * points[:, 0] / setting.spread**2))
    posterior = setting.flipped + (1 - 2 * setting.flipped) * sure
    return Sample(points=points, labels=labels.astype(np.float64), posterior=posterior)


def descend(sample: Sample, setting: Setting) -> dict[int, Float[ndarray, "A 2"]]:
    """Gradient descent on all samples for every exponent at once; the weights after some of the steps."""
    exponents = np.array(GAMMAS)[:, None]
    signs = 2 * sample.labels - 1
    weights = np.zeros((len(GAMMAS), 2))
    kept = checkpoints(setting.iterations)
    found: dict[int, Float[ndarray, "A 2"]] = {}
    for step in range(1, setting.iterations + 1):
        margin = (weights @ sample.points.T) * signs  # log-odds of the true class, (A, N)
        weights = weights + setting.learning_rate * (
            (push(margin, exponents) * signs) @ sample.points / len(signs)
        )
        if step in kept:
            found[step] = weights.copy()
    return found


def push(margin: Float[ndarray, "A N"], gamma: Float[ndarray, "A 1"]) -> Float[ndarray, "A N"]:
    """Minus the slope of focal loss in the true class's log-odds: g(p) (1 - p)."""
    miss = 1 / (1 + np.exp(margin))
    return miss ** (gamma + 1) - gamma * (1 - miss) * miss**gamma * np.log1p(-miss)


def checkpoints(iterations: int) -> set[int]:
    """Some sixty numbers of steps, evenly spaced in the logarithm.

    Example:
        >>> sorted(checkpoints(5))
        [1, 2, 3, 4, 5]
    """
    return {round(step) for step in np.geomspace(1, iterations, 60)}


class LinearModel(Simulation):
    """All losses on the sample of one seed."""

    name: ClassVar[str] = "linear-model"
    version: ClassVar[int] = 2
    defaults: ClassVar[Mapping[str, Any]] = asdict(DEFAULT)

    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        """Train and judge."""
        given = dict(settings)
        seed = given.pop("seed")
        return simulate(Setting(**given), seed)


def simulate(setting: Setting, seed: int) -> dict[str, Any]:
    """Train and judge all models of one seed."""
    sample = draw(setting, setting.num_samples, seed)
    test = draw(setting, setting.num_test, seed + TEST_SEED)
    path = descend(sample, setting)

    def along(place: int, value: Callable[[Float[ndarray, " 2"]], float]) -> list[float]:
        """A number of an exponent's weights after each step that was kept."""
        return [value(path[step][place]) for step in sorted(path)]

    return {
        "steps": sorted(path),
        "arms": [
            {
                **_judge(gamma, path[setting.iterations][place], sample, test),
                "norms": along(place, _norm),
                "logit_norms": along(place, lambda weights: _norm(sample.points @ weights)),
            }
            for place, gamma in enumerate(GAMMAS)
        ],
        "spreads": [_spread(setting, spread, seed) for spread in SPREADS],
    }


def _judge(gamma: float, weights: Float[ndarray, " 2"], sample: Sample, test: Sample) -> dict[str, Any]:
    """What one model is like after the last step."""
    scores = test.points @ weights
    stated = scores > 0
    confidence = 1 / (1 + np.exp(-np.abs(scores)))
    wrong = stated != (test.labels > 0.5)
    truth = np.where(stated, test.posterior, 1 - test.posterior)
    probs = torch.from_numpy(1 / (1 + np.exp(-scores)))
    both = torch.stack([1 - probs, probs], 1)
    counts, _ = np.histogram(confidence[wrong], bins=np.linspace(0.5, 1, 26))
    return {
        "gamma": gamma,
        "weights": weights.tolist(),
        "norm": _norm(weights),
        "angle": float(np.degrees(np.arctan2(weights[1], weights[0]))),
        "rest": _norm(weights - _minimiser(sample, gamma)),
        "accuracy": float(1 - wrong.mean()),
        "confidence": float(confidence.mean()),
        "ece": expected_calibration_error(both, torch.from_numpy(test.labels).long()).item(),
        "mistakes": int(wrong.sum()),
        "mistakes_confidence": float(confidence[wrong].mean()),
        "mistakes_truth": float(truth[wrong].mean()),
        "mistakes_above_90": float((confidence[wrong] > 0.9).mean()),
        "all_above_90": float((confidence > 0.9).mean()),
        "histogram": (counts / counts.sum()).tolist(),
        "logits": _norm(sample.points @ weights),
        "implied_decay": _decay(gamma, weights, sample),
        "own_trace": _own_trace(gamma, weights, sample),
        **_bound(weights, sample),
    }


def _spread(setting: Setting, spread: float, seed: int) -> dict[str, Any]:
    """The same at the exact minimum for another spread of the clusters."""
    other = Setting(spread=spread, num_samples=setting.num_samples, flipped=setting.flipped)
    sample, test = draw(other, other.num_samples, seed), draw(other, setting.num_test, seed + TEST_SEED)
    found: dict[str, Any] = {"spread": spread}
    for gamma in (0.0, 1.0):
        judged = _judge(gamma, _minimiser(sample, gamma), sample, test)
        found[f"{gamma:g}"] = {
            name: judged[name] for name in ("norm", "mistakes_above_90", "mistakes_confidence", "ece")
        }
    return found


def _minimiser(sample: Sample, gamma: float) -> Float[ndarray, " 2"]:
    """Where gradient descent is going."""

    def loss(log_odds: Tensor, outcomes: Tensor) -> Tensor:
        logits = torch.stack([torch.zeros_like(log_odds), log_odds], 1)
        return focal_loss(logits, outcomes.long(), gamma=gamma, reduction="none")

    points, labels = torch.from_numpy(sample.points), torch.from_numpy(sample.labels)
    return theory.fit_linear(points, labels, loss).weights.numpy()


def _decay(gamma: float, weights: Float[ndarray, " 2"], sample: Sample) -> float:
    """The weight decay that focal loss amounts to here."""
    scores, labels = torch.from_numpy(sample.points @ weights), torch.from_numpy(sample.labels).long()
    return theory.implied_weight_decay(scores, labels, gamma=gamma, weight_norm=_norm(weights)).item()


def _own_trace(gamma: float, weights: Float[ndarray, " 2"], sample: Sample) -> float:
    """Trace of the Hessian of the loss that was trained."""
    margin = (sample.points @ weights) * (2 * sample.labels - 1)
    bends = theory.logit_curvature(1 / (1 + np.exp(-margin)), gamma=gamma).numpy()
    return float((bends * (sample.points**2).sum(axis=1)).mean())


def _bound(weights: Float[ndarray, " 2"], sample: Sample) -> dict[str, float]:
    """The PAC-Bayes bound of the squared error, by its curvature at these weights."""
    points, labels = torch.from_numpy(sample.points), torch.from_numpy(sample.labels)

    def risk(at: Tensor) -> Tensor:
        return ((points @ at).sigmoid() - labels).square().mean()

    at = torch.from_numpy(weights)
    hessian = torch.autograd.functional.hessian(risk, at)
    curvatures = torch.linalg.eigvalsh(hessian).tolist()
    found = theory.pac_bayes_bound(
        curvatures,
        risk=risk(at).item(),
        distance=_norm(weights),
        prior_scale=PRIOR_SCALE,
        num_samples=len(labels),
    )
    return {
        "squared_trace": sum(curvatures),
        "risk": found.risk,
        "curvature_price": found.curvature_price,
        "bound": found.value,
    }


def _norm(vector: Float[ndarray, " n"]) -> float:
    return float(np.linalg.norm(vector))
