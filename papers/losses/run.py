"""Which loss is best calibrated, as trained and after temperature scaling?

A small network is trained on 10,000 images of Fashion-MNIST with each of fourteen losses, and with seven on a
long-tailed set, in which the first class has a hundred times the images of the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from calibrant.reports.figures.drawing import BLUE, VERMILLION
from calibrant_lab.sweep.tasks.task import RunResult
from papers.analysis import Frames, Tables, draw_means, flat_runs, means_only, pivot, relative
from papers.loss_rows import called, gamma_3, on_grid, scheduled
from papers.losses.measure import stages_of

LOSSES = {
    **called("cross-entropy", *(f"focal, γ = {gamma}" for gamma in (1, 2, 3)), "FLSD-53", "FCL"),
    **called("label smoothing", "margin smoothing", "Brier", "AdaFocal", "dual focal", "MMCE"),
    **called("MMCE, normalised once", "MDCA", "FLSD-532"),
    **scheduled(6, 15),
}
"""Losses as grids spell them; the last three are those of the study of sum and mean."""
SHORT = tuple(LOSSES.values())[:12]
IMAGES = {1.0: "balanced", 100.0: "long-tailed"}
STAGES = {"before": ("as trained", VERMILLION, "o"), "temperature": ("T by likelihood", BLUE, "s")}
"""Stages that the figure shows, and how."""
GROUPS = {"frequent": slice(0, 3), "middle": slice(3, 7), "rare": slice(7, 10)}
"""Places of the classes of long-tailed images, the most frequent first."""
DROP = 9
"""The last epoch at the first learning rate."""


def keep(result: RunResult) -> dict[str, Any] | None:
    """Metrics and fits by stage, the classes, and the norm of the last layer after each epoch."""
    found = stages_of(result)
    return found and {**found, "classes": result.more["classes"]}


def frames(results: Mapping[str, Any]) -> Frames:
    """``errors`` by stage and metric, ``fitted`` by run, ``classes`` by group, and differences of losses."""
    runs = flat_runs(results)
    found = of_runs(runs, key_of)
    classes = [
        {**key_of(run), "stage": stage, "group": group, "metric": metric, "value": fmean(values[part])}
        for run in runs
        for stage, metrics in run["classes"].items()
        for metric, values in metrics.items()
        for group, part in GROUPS.items()
    ]
    return {**found, "classes": pd.DataFrame(classes)}


def key_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """What tells a run from others: the images, and the loss with what is unusual about its training."""
    decay = "" if run["optimiser.weight_decay"] else ", no weight decay"
    weights = ", weighted" if run["training.class_weights"] == "balanced" else ""
    loss = LOSSES[run["loss"]] + decay + weights
    return {"images": IMAGES[run["data.imbalance"]], "loss": loss, "seed": run["seed"]}


def of_runs(
    runs: Sequence[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, pd.DataFrame]:
    errors = pd.DataFrame(
        {**key(run), "stage": stage, "metric": metric, "value": value}
        for run in runs
        for stage, metrics in run["stages"].items()
        for metric, value in metrics.items()
    )
    fitted = pd.DataFrame(
        {
            **key(run),
            "T": run["parameters"]["temperature"],
            "T by ECE": run["parameters"]["ece_temperature"],
            "first norm": fmean(norm for epoch, norm in run["norms"].items() if int(epoch) <= DROP),
            "last norm": run["norms"][max(run["norms"], key=int)],
        }
        for run in runs
    )
    by = [name for name in key(runs[0]) if name not in {"loss", "seed"}]
    fitted["T by ECE"] = fitted.groupby([*by, "loss"])["T by ECE"].transform(on_grid)
    plain = errors.query("stage == 'before'")
    return {
        "errors": errors,
        "fitted": fitted,
        "cost": relative(plain.query("metric == 'error'"), [*by, "seed"]),
        "exponents": gamma_3(plain, [*by, "metric"]),
    }


def tables(found: Frames) -> Tables:
    heads = {
        ("balanced", "before", "error"): "error %",
        ("balanced", "before", "ece"): "ECE %",
        ("balanced", "temperature", "ece"): "ECE % with T",
        ("long-tailed", "before", "ece"): "long-tailed: ECE %",
        ("long-tailed", "temperature", "ece"): "long-tailed: ECE % with T",
    }
    wide = pivot(found["errors"], ["loss"], ["images", "stage", "metric"], "value")
    short = wide.loc[list(SHORT), list(heads)].set_axis(list(heads.values()), axis=1)
    return {"short": means_only(short, "ECE %")}


def figure(found: Frames) -> Figure:
    """ECE by loss as trained and after temperature scaling, with intervals."""
    whole = Figure(figsize=(8.4, 3.6), layout="constrained")
    part = found["errors"].query("metric == 'ece' and loss in @SHORT")
    for ax, images in zip(whole.subplots(1, 2, sharey=True), IMAGES.values(), strict=True):
        for stage, look in STAGES.items():
            rows = part[(part.images == images) & (part.stage == stage)]
            draw_means(ax, rows, "loss", SHORT, *look)
        ax.set(title=f"{images} images", xlabel="ECE in %", xlim=(0, None))
    ax.legend(loc="lower right")
    return whole
