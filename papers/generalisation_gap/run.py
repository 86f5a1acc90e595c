"""Does focal loss make up for the overconfidence that comes with too little data?"""

import itertools
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from calibrant._math.convex_minimum import convex_minimum
from calibrant.losses import focal_loss
from calibrant.reports.figures.drawing import GREY, series
from calibrant_lab import theory
from calibrant_lab.sweep.tasks.task import Settings, Simulation
from papers.analysis import Frames, Tables, beside, flat_runs, mean_ci, means_only, ordered, pivot, reaching

GAMMAS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0)
SIGNAL = 2.0
QUANTITIES = ("train_temperature", "test_temperature", "test_overconfidence", "test_calibration_error")


class GeneralisationGap(Simulation):
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
        limits = [_limit(gamma, load) for gamma in GAMMAS]
        return {name: [fit.get(name) for fit in fits] for name in QUANTITIES} | {"limit_temperature": limits}


def _fitted(
    world: theory.LogisticWorld, features: Tensor, outcomes: Tensor, gamma: float
) -> dict[str, float]:
    """One loss on one sample; nothing if it has no minimum, or weights that point the wrong way."""
    fit = theory.fit_linear(features, outcomes, focal(gamma))
    test = world.performance(fit.weights)
    if not fit.converged or not 0 < test.temperature < float("inf"):
        return {}
    return {
        "train_temperature": _best_temperature(features @ fit.weights, outcomes),
        "test_temperature": test.temperature,
        "test_overconfidence": test.overconfidence,
        "test_calibration_error": test.calibration_error,
    }


def focal(gamma: float) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(log_odds: Tensor, truth: Tensor) -> Tensor:
        logits = torch.stack([torch.zeros_like(log_odds), log_odds], 1)
        return focal_loss(logits, truth.long(), gamma=gamma, reduction="none")

    return loss


def _best_temperature(log_odds: Tensor, outcomes: Tensor) -> float:

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
    return theory.asymptotic_fit(focal(gamma), load=load, signal=SIGNAL).test.temperature


CE = "cross-entropy"
LOSSES = {gamma: f"γ = {gamma:g}" if gamma else CE for gamma in GAMMAS}
SPAN = (2.0, 2.5)
"""Cross-entropy's temperatures from which the argument of the paper starts."""


def frames(results: Mapping[str, Any]) -> Frames:
    """``fits`` by sample and loss; ``exponents`` that need no temperature, by sample."""
    rows = pd.DataFrame(
        {
            "samples": run["num_samples"],
            "features": run["num_features"],
            "seed": run["seed"],
            "loss": gamma,
            **{name: run[name][place] for name in (*QUANTITIES, "limit_temperature")},
        }
        for run in flat_runs(results)
        for place, gamma in enumerate(GAMMAS)
    )
    rows = rows.assign(load=rows.features / rows.samples).sort_values(["load", "samples", "seed", "loss"])
    fits = ordered(rows.dropna(subset=["test_temperature"]), "loss", LOSSES)
    key = ["samples", "features", "seed"]
    proper = fits[fits.loss == CE]
    usual = reaching(proper, key[:2], "test_temperature", SPAN)
    fits = fits.assign(
        factor=fits.train_temperature * beside(fits, proper, key).test_temperature / fits.test_temperature,
        to_limit=fits.test_temperature / fits.limit_temperature,
        usual=[usual[cell] for cell in zip(fits.samples, fits.features, strict=True)],
    )
    whole = rows.groupby(["load", *key]).filter(lambda of: of.test_temperature.notna().all())
    crossings = whole.groupby(["load", *key]).test_temperature.apply(crossing)
    return {"fits": fits, "exponents": crossings.rename("value").reset_index()}


def crossing(temperatures: pd.Series) -> float:
    """The exponent at which the temperature is 1: log T is all but straight in log(1 + γ).

    Beyond the exponents that were tried, the nearest two are drawn out.

    Example:
        >>> crossing(pd.Series([2 / (1 + gamma) for gamma in GAMMAS]))
        1.0
    """
    pairs = list(itertools.pairwise(zip(np.log1p(GAMMAS), np.log(temperatures), strict=True)))
    (at, height), (end, low) = next((pair for pair in pairs if pair[1][1] <= 0), pairs[-1])
    return float(np.expm1(at + (end - at) * height / (height - low)))


def tables(found: Frames) -> Tables:
    rows, exponents = (found[name].query("samples == 800") for name in ("fits", "exponents"))
    number = {"digits": 3, "scale": 1}
    proper = pivot(rows[rows.loss == CE], ["features"], [], "test_temperature", **number)
    over = pivot(rows[rows.loss.isin([CE, "γ = 1", "γ = 3"])], ["features"], ["loss"], "test_overconfidence")
    exponent = pivot(exponents, ["features"], [], "value", **number).set_axis(["γ that needs no T"], axis=1)
    whole = proper.set_axis(["T of cross-entropy"], axis=1).join([over, exponent])
    return {"short": means_only(whole, "T of cross-entropy")}


def figure(found: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 3.4), layout="constrained")
    (left, right), look = whole.subplots(1, 2), {"markersize": 4, "capsize": 2}
    left.axhline(0, color=GREY, linewidth=0.8)
    shown = found["fits"].query("samples == 800")
    for place, (loss, of) in enumerate(shown.groupby("loss", observed=True)):
        colour, mark, _ = series(place)
        means = [(load, *mean_ci(100 * rows.test_overconfidence)) for load, rows in of.groupby("load")]
        left.errorbar(*zip(*means, strict=True), color=colour, marker=mark, label=loss, **look)
    left.set(xlabel="features per sample (800 samples)", ylabel="overconfidence on new samples, points")
    left.legend(fontsize="x-small", ncols=2, loc="lower right")
    for ax in (left, right):
        ax.set_xticks([0, 0.05, 0.1, 0.15, 0.2])
    every = found["exponents"].groupby(["load", "samples"]).value
    means = [(load, *mean_ci(values)) for (load, _), values in every]
    right.errorbar(*zip(*means, strict=True), color=series(0)[0], marker="o", linestyle="none", **look)
    right.set(xlabel="features per sample (every number of samples)", ylabel="γ that needs no temperature")
    return whole
