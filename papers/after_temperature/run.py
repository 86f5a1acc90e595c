"""Why can a loss have the lower ECE and the higher log loss once both have a temperature?"""

import math
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from calibrant.reports.figures.drawing import series
from calibrant_lab.theory import LogisticWorld, fit_linear
from papers.analysis import Frames, Tables, content, difference, flat_runs, means_only, pivot, pm
from papers.generalisation_gap.run import focal
from papers.loss_rows import TITLES
from papers.many_classes.run import LOSSES

SIGNALS = (2.0, 4.0, 8.0)
COSINES = (0.4, 0.8, 0.9, 0.99, 1.0)
WORLD, SAMPLES = 2.0, 1000
LOADS = (0.05, 0.2, 0.3)
GAMMAS = (0, 3, 5)
NETWORKS = {
    "losses": {1.0: "Fashion-MNIST", 100.0: "Fashion-MNIST, long tail"},
    "cifar10": {"mean": "CIFAR-10, mean", "sum": "CIFAR-10, sum"},
    "texts": {20: "20 Newsgroups", 50: "AG News"},
}
"""Settings of other studies, by imbalance, by what the loss does over a batch, by epochs."""
BY = {"losses": "data.imbalance", "cifar10": "reduction", "texts": "training.epochs"}
USUAL = {"optimiser.learning_rate": (0.1, 0.001), "training.class_weights": ("none",)}
DECAY = {"losses": 0.0005, "cifar10": 0.0005, "texts": 0.0}
"""Runs of other settings than these ask something else of a loss."""
CE, FLSD = "cross-entropy", "FLSD-53"
MEASURES = {"error": ("error, %", 100, 2), "nll": ("NLL", 1, 3), "ece": ("ECE, %", 100, 2)}
"""Title, scale and digits."""


def recalibrated(signal: float, along: float, across: float) -> dict[str, float]:
    """Return NLL, ECE and slope of a linear model after its best temperature, on infinitely many samples.

    Example:
        >>> truth = recalibrated(2.0, along=0.3, across=0.0)
        >>> round(truth["slope"], 6), round(truth["ece"], 6)
        (2.0, 0.0)
    """
    world = LogisticWorld(num_features=2, signal=signal)
    weights = torch.tensor([along, across], dtype=torch.float64)
    size = float(weights.norm())
    inverse = 1 / world.performance(weights).temperature
    found = world.performance(weights * inverse)
    return {
        "cosine": along / size,
        "slope": size * inverse,
        "nll": found.cross_entropy,
        "ece": found.calibration_error,
    }


def measure(_folder: Path, seeds: str = "20") -> dict[str, Any]:
    curve = [
        {"signal": signal, **recalibrated(signal, cosine, math.sqrt(1 - cosine**2))}
        for signal in SIGNALS
        for cosine in sorted({*np.linspace(0.02, 1, 50).round(2).tolist(), *COSINES})
    ]
    trained = []
    for load, seed, gamma in product(LOADS, range(int(seeds)), GAMMAS):
        world = LogisticWorld(num_features=round(load * SAMPLES), signal=WORLD)
        weights = fit_linear(*world.sample(SAMPLES, seed=seed), focal(gamma)).weights
        found = recalibrated(WORLD, float(weights[0]), float(weights[1:].norm()))
        trained.append({"load": load, "gamma": gamma, "seed": seed, **found})
    return {"curve": curve, "trained": trained}


def frames(results: Mapping[str, Any]) -> Frames:
    """``curve``; ``pairs``, a model less cross-entropy's; ``networks``, one row per run."""
    trained = pd.DataFrame(results["trained"]).set_index(["load", "seed", "gamma"])
    base = trained.xs(0, level="gamma")
    less = {gamma: trained.xs(gamma, level="gamma") - base for gamma in GAMMAS[1:]}
    pairs = pd.concat(less, names=["gamma"])
    return {
        "curve": pd.DataFrame(results["curve"]),
        "pairs": pairs.assign(
            nearer_is_better=pairs.nll * pairs.cosine < 0, opposite=pairs.nll * pairs.ece < 0
        ).reset_index(),
        "networks": pd.DataFrame(_networks()),
    }


def _networks() -> Iterator[dict[str, Any]]:
    for study, settings in NETWORKS.items():
        for run in flat_runs(content(study)):
            usual = all(run[name] in values for name, values in USUAL.items())
            if usual and run["optimiser.weight_decay"] == DECAY[study]:
                yield _row(run, settings[run[BY[study]]], TITLES.get(run["loss"], run["loss"]), "temperature")
    for run in content("many_classes")["runs"]:
        if run["loss"] in LOSSES:
            yield _row(run, f"Tiny-ImageNet, {run['epochs']} epochs", LOSSES[run["loss"]], "with T")


def _row(run: Mapping[str, Any], setting: str, loss: str, stage: str) -> dict[str, Any]:
    return {"setting": setting, "loss": loss, "seed": run["seed"], **run["stages"][stage]}


def tables(found: Frames) -> Tables:
    curve, pairs = found["curve"], found["pairs"]
    at = curve[curve.cosine.isin(COSINES)].pivot(index="cosine", columns="signal", values="ece")
    means = [
        pivot(pairs, ["load", "gamma"], [], name, digits=4, scale=scale).set_axis([title], axis=1)
        for name, title, scale in (("cosine", "cosine", 1), ("nll", "NLL", 1), ("ece", "ECE, %", 100))
    ]
    shares = 100 * pairs.groupby(["load", "gamma"])[["nearer_is_better", "opposite"]].mean()
    shares.columns = ["nearer has lower NLL", "ECE says the opposite"]
    trained = pd.concat([*means, shares.map("{:.0f}%".format)], axis=1).sort_index()
    of_setting = found["networks"].groupby("setting")
    networks = pd.DataFrame({setting: _compared(of) for setting, of in of_setting}).T
    return {
        "curve": (100 * at).map("{:.3f}".format),
        "trained": means_only(trained, "ECE, %"),
        "networks": means_only(networks, "ECE, %"),
    }


def _compared(of: pd.DataFrame) -> dict[str, str]:
    means = of.groupby("loss")[list(MEASURES)].mean()
    ranks = means.rank().corr()["error"]
    return {
        "losses": str(len(means)),
        "NLL with error": f"{ranks.nll:.2f}",
        "ECE with error": f"{ranks.ece:.2f}",
        **{
            title: pm(difference(of, name, "loss", FLSD, CE)[name], scale=scale, digits=digits)
            for name, (title, scale, digits) in MEASURES.items()
        },
    }


def figure(found: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 3.2), layout="constrained")
    for ax, name, scale in zip(whole.subplots(1, 2), ("nll", "ece"), (1, 100), strict=True):
        for place, (signal, of) in enumerate(found["curve"].groupby("signal")):
            ax.plot(of.cosine, scale * of[name], color=series(place)[0], label=f"signal {signal:g}")
        ax.set(xlabel="cosine of the weights and the truth's", ylim=(0, None))
        ax.legend(fontsize="small")
    whole.axes[0].set_ylabel("NLL after the best temperature")
    whole.axes[1].set_ylabel("ECE after it, %")
    return whole
