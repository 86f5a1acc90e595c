"""Does focal loss calibrate a linear model by keeping its weights small?

Appendix G of Mukhoti et al. (2020) compares it with cross-entropy on two clusters per class with flipped
labels. Here the true probabilities stand beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from calibrant.reports.figures.drawing import GREY, series
from papers.analysis import Frames, Tables, flat_runs, means_only, ordered, pivot
from papers.linear_model.measure import GAMMAS

LOSSES = {gamma: f"focal, γ = {gamma:g}" if gamma else "cross-entropy" for gamma in GAMMAS}


def frames(results: Mapping[str, Any]) -> Frames:
    """``models``, a row for each metric; ``paths`` of the norm; ``mistakes`` by confidence."""
    runs = flat_runs(results)
    arms = pd.DataFrame(
        {"seed": run["seed"], "steps": run["steps"], **arm} for run in runs for arm in run["arms"]
    )
    arms = ordered(arms.rename(columns={"gamma": "loss"}), "loss", LOSSES)
    arms["first_norm"] = arms.norms.str[0]
    arms["distance"] = (arms.mistakes_confidence - arms.mistakes_truth).abs()
    lists = ["steps", "norms", "histogram"]
    models = arms.drop(columns=lists).melt(["loss", "seed"], var_name="metric")
    paths = arms[["loss", "seed", "steps", "norms"]].explode(["steps", "norms"])
    return {
        "models": models,
        "paths": paths,
        "mistakes": arms[["loss", "seed", "histogram", "mistakes_truth"]],
    }


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
    """Norm of the weights along training, and how confident the mistakes are."""
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
    right.set(
        xlabel="confidence of the mistakes in % (dotted: true probability)", ylabel="share of them in %"
    )
    return whole
