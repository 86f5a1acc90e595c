"""Is what focal loss does due to the length of its gradients?"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from calibrant.reports.figures.drawing import BLUE, VERMILLION
from calibrant_lab.sweep.tasks.task import RunResult
from papers.analysis import Frames, Tables, draw_means, flat_runs, means_only, ordered, pivot
from papers.losses import run as losses
from papers.losses.run import stages_of

WAYS = ("sum", "sum, clip 0.56", "mean", "mean ×0.606", "mean ×2.17", "mean ×3.58", "mean ×3.58, decay ÷3.6")
"""The reduction, with the factor of the learning rate, clipping and weight decay if they are unusual."""
SHOWN = {"cross-entropy": (VERMILLION, "o"), "focal, γ = 3": (BLUE, "s")}


def keep(result: RunResult) -> dict[str, Any] | None:
    found = stages_of(result)
    return found and {"cpu_seconds": result.cpu_seconds, **found}


def way_of(run: Mapping[str, Any]) -> str:
    rate, decay, clip = (run[f"optimiser.{name}"] for name in ("learning_rate", "weight_decay", "clip_norm"))
    times = "" if rate == 0.1 else f" ×{rate / 0.1:.3g}"
    lighter = "" if decay in {0, 5e-4} else f", decay ÷{5e-4 / decay:.2g}"
    return f"{run['reduction']}{times}{'' if clip == 2 else f', clip {clip:g}'}{lighter}"


def key_of(run: Mapping[str, Any]) -> dict[str, Any]:
    return {**losses.key_of(run), "way": way_of(run)}


def frames(results: Mapping[str, Any]) -> Frames:
    """Frames of the study of losses with a ``way``; ``authors`` has the reduction that the authors' code has.

    It averages the Brier score and sums all other losses. An ``arm`` is a loss in one way.
    """
    found = losses.of_runs(flat_runs(results), key_of)
    for name in ("errors", "fitted"):
        found[name]["arm"] = found[name].loss + ", " + found[name].way
    errors = found["errors"].query("images == 'balanced'")
    averaged = errors.loss == "Brier"
    return {**found, "authors": errors.loc[errors.way == averaged.map({True: "mean", False: "sum"})]}


def tables(found: Frames) -> Tables:
    fitted, errors = (
        ordered(
            found[name].query("images == 'balanced' and loss in @SHOWN"), "way", {way: way for way in WAYS}
        )
        for name in ("fitted", "errors")
    )
    short = [
        pivot(fitted, ["way"], ["loss"], "T", digits=3, scale=1),
        pivot(errors.query("stage == 'before' and metric == 'ece'"), ["way"], ["loss"], "value"),
    ]
    whole = pd.concat(short, axis=1, keys=["T,", "ECE %,"])
    return {"short": means_only(whole, ("ECE %,", "focal, γ = 3"))}


def figure(found: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 2.8), layout="constrained")
    plain = found["errors"].query("stage == 'before' and metric == 'ece'")
    drawn = {"temperature": (found["fitted"], "T", 1), "ECE in %, as trained": (plain, "value", 100)}
    axes = whole.subplots(1, 2, sharey=True)
    for ax, (label, (frame, value, scale)) in zip(axes, drawn.items(), strict=True):
        for loss, look in SHOWN.items():
            rows = frame.query("images == 'balanced' and loss == @loss")
            draw_means(ax, scale * rows[value], rows.way, WAYS, loss, *look)
        ax.set(xlabel=label, xlim=(0, None))
    axes[1].legend(loc="upper right")
    return whole
