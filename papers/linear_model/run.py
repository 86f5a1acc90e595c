"""Does focal loss calibrate a linear model by keeping its weights small?"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy import ndarray

from calibrant._math.shapes import Float
from calibrant.metrics import expected_calibration_error
from calibrant.reports.figures.drawing import GREY, series
from calibrant_lab.sweep.tasks.task import Settings, Simulation
from papers.analysis import Frames, Tables, flat_runs, means_only, ordered, pivot

GAMMAS = (0.0, 1.0, 2.0, 3.0)
TEST_SEED = 10_000


class Sample(NamedTuple):
    """Points, labels as they are after flipping, and how probable class 1 truly is."""

    points: Float[ndarray, "N 2"]
    labels: Float[ndarray, " N"]
    posterior: Float[ndarray, " N"]


def draw(settings: Settings, num_samples: int, seed: int) -> Sample:
    """Class 1 around (1, 1) and (1, -1), class 0 around (-1, 1) and (-1, -1); some labels flipped."""
    generator = np.random.default_rng(seed)
    clean = generator.random(num_samples) < 0.5
    centre = np.stack([np.where(clean, 1.0, -1.0), generator.choice([-1.0, 1.0], num_samples)], axis=1)
    points = centre + settings["spread"] * generator.normal(size=(num_samples, 2))
    labels = clean ^ (generator.random(num_samples) < settings["flipped"])
    sure = 1 / (1 + np.exp(-2 * points[:, 0] / settings["spread"] ** 2))
    posterior = settings["flipped"] + (1 - 2 * settings["flipped"]) * sure
    return Sample(points=points, labels=labels.astype(np.float64), posterior=posterior)


def descend(sample: Sample, settings: Settings) -> dict[int, Float[ndarray, "A 2"]]:
    """Gradient descent on all samples for every exponent at once; the weights after some of the steps."""
    exponents = np.array(GAMMAS)[:, None]
    signs = 2 * sample.labels - 1
    weights = np.zeros((len(GAMMAS), 2))
    kept, found = checkpoints(settings["iterations"]), {}
    for step in range(1, settings["iterations"] + 1):
        margin = (weights @ sample.points.T) * signs  # log-odds of the true class, (A, N)
        slope = (push(margin, exponents) * signs) @ sample.points / len(signs)
        weights = weights + settings["learning_rate"] * slope
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
    """All losses on the sample of one seed; what the reference does not say is chosen here."""

    name: ClassVar[str] = "linear-model"
    version: ClassVar[int] = 2
    defaults: ClassVar[Mapping[str, Any]] = {
        "num_samples": 400,
        "num_test": 20_000,
        "spread": 0.35,
        "flipped": 0.1,
        "learning_rate": 0.02,
        "iterations": 50_000,
    }

    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        sample = draw(settings, settings["num_samples"], settings["seed"])
        test = draw(settings, settings["num_test"], settings["seed"] + TEST_SEED)
        path = descend(sample, settings)
        return {
            "steps": sorted(path),
            "arms": [
                {
                    "gamma": gamma,
                    **_evaluated(path[settings["iterations"]][place], sample, test),
                    "norms": [_norm(path[step][place]) for step in sorted(path)],
                }
                for place, gamma in enumerate(GAMMAS)
            ],
        }


def _evaluated(weights: Float[ndarray, " 2"], sample: Sample, test: Sample) -> dict[str, Any]:
    scores = test.points @ weights
    stated = scores > 0
    confidence = 1 / (1 + np.exp(-np.abs(scores)))
    wrong = stated != (test.labels > 0.5)
    truth = np.where(stated, test.posterior, 1 - test.posterior)
    probs = torch.from_numpy(1 / (1 + np.exp(-scores)))
    both = torch.stack([1 - probs, probs], 1)
    counts, _ = np.histogram(confidence[wrong], bins=np.linspace(0.5, 1, 26))
    return {
        "norm": _norm(weights),
        "logits": _norm(sample.points @ weights),
        "angle": float(np.degrees(np.arctan2(weights[1], weights[0]))),
        "accuracy": float(1 - wrong.mean()),
        "confidence": float(confidence.mean()),
        "ece": expected_calibration_error(both, torch.from_numpy(test.labels).long()).item(),
        "mistakes_confidence": float(confidence[wrong].mean()),
        "mistakes_truth": float(truth[wrong].mean()),
        "mistakes_above_90": float((confidence[wrong] > 0.9).mean()),
        "all_above_90": float((confidence > 0.9).mean()),
        "histogram": (counts / counts.sum()).tolist(),
    }


def _norm(vector: Float[ndarray, " n"]) -> float:
    return float(np.linalg.norm(vector))


LOSSES = {gamma: f"focal, γ = {gamma:g}" if gamma else "cross-entropy" for gamma in GAMMAS}


def frames(results: Mapping[str, Any]) -> Frames:
    """``models``, a row for each metric; ``paths`` of the norm; ``mistakes`` by confidence."""
    every = ((run, arm) for run in flat_runs(results) for arm in run["arms"])
    arms = pd.DataFrame({"seed": run["seed"], "steps": run["steps"], **arm} for run, arm in every)
    arms = ordered(arms.rename(columns={"gamma": "loss"}), "loss", LOSSES)
    arms["first_norm"] = arms.norms.str[0]
    arms["distance"] = (arms.mistakes_confidence - arms.mistakes_truth).abs()
    lists = ["steps", "norms", "histogram"]
    models = arms.drop(columns=lists).melt(["loss", "seed"], var_name="metric")
    paths = arms[["loss", "seed", "steps", "norms"]].explode(["steps", "norms"])
    mistakes = arms[["loss", "seed", "histogram", "mistakes_truth"]]
    return {"models": models, "paths": paths, "mistakes": mistakes}


def tables(found: Frames) -> Tables:
    titles = {
        "accuracy": "accuracy %",
        "confidence": "confidence %",
        "ece": "ECE %",
        "mistakes_confidence": "of mistakes %",
        "mistakes_truth": "true there %",
    }
    wide = pivot(ordered(found["models"], "metric", titles), ["loss"], ["metric"], "value")
    return {"short": means_only(wide, "ECE %")}


def figure(found: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = whole.subplots(1, 2)
    for place, (loss, of) in enumerate(found["paths"].groupby("loss", observed=True)):
        means = of.groupby("steps").norms.mean()
        left.plot(means.index, means, color=series(place)[0], label=loss)
    left.set(xscale="log", xlabel="steps of gradient descent", ylabel="norm of the weights")
    left.legend()
    edges = np.linspace(50, 100, 26)
    mistakes = found["mistakes"]
    for place, loss in enumerate(list(LOSSES.values())[:2]):
        share = 100 * np.mean(mistakes[mistakes.loss == loss].histogram.tolist(), axis=0)
        right.stairs(share, edges, color=series(place)[0], fill=True, alpha=0.35)
        right.stairs(share, edges, color=series(place)[0])
    right.axvline(100 * mistakes.mistakes_truth.mean(), color=GREY, linestyle=":")
    right.set(xlabel="confidence of the mistakes in % (dotted: true probability)")
    right.set(ylabel="share of them in %")
    return whole
