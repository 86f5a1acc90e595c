"""Which epoch should a training keep: the last, or the best by NLL, before or after a temperature?"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from calibrant.reports.figures import GREY
from calibrant_lab.reports.dynamics import draw_course
from calibrant_lab.sweep.tasks.task import RunResult
from papers.analysis import Frames, Tables, beside, flat_runs, means_only, ordered, pivot
from papers.loss_rows import called

LOSSES = called("cross-entropy", "focal, γ = 3", "FLSD-53")
WAYS = {("last", "nll"): "last", ("best", "nll-as-trained"): "by NLL", ("best", "nll"): "by NLL after T"}
CRITERIA = {"by NLL": "calibration_nll", "by NLL after T": "calibration_nll_after_temperature"}
"""The row of an epoch by which each way chooses."""
DROPS, START, LAST = (9, 15), 12, 21
METRICS = {
    "error": ("uncalibrated", "error"),
    "NLL": ("uncalibrated", "nll"),
    "ECE": ("uncalibrated", "ece"),
    "NLL with T": ("temperature", "nll"),
    "ECE with T": ("temperature", "ece"),
}
"""Stage and metric on the test split."""


def keep(result: RunResult) -> dict[str, Any]:
    """Test metrics of the kept epoch, and the NLL of held-out images by epoch."""
    return {
        "cpu_seconds": result.cpu_seconds,
        "courses": {way: [row[name] for row in result.rows] for way, name in CRITERIA.items()},
        "test": {name: result.metrics[stage][metric] for name, (stage, metric) in METRICS.items()},
    }


def frames(results: Mapping[str, Any]) -> Frames:
    """``kept`` epochs and test metrics, the same less the last epoch's, ``courses`` and their ``rise``."""
    kept, courses = [], []
    for run in flat_runs(results):
        way = WAYS[run["training.keep"], run["training.keep_by"]]
        of = {"loss": run["loss"], "seed": run["seed"]}
        chosen = run["courses"].get(way)
        epoch = LAST if chosen is None else chosen.index(min(chosen)) + 1
        found = {"epoch": epoch, **run["test"]}
        kept += [{**of, "way": way, "what": name, "value": value} for name, value in found.items()]
        if way == "last":
            courses += [
                {**of, "by": by, "epoch": number, "value": value}
                for by, values in run["courses"].items()
                for number, value in enumerate(values, 1)
            ]
    tidy = ordered(ordered(pd.DataFrame(kept), "loss", LOSSES), "way", {way: way for way in WAYS.values()})
    course = ordered(pd.DataFrame(courses), "loss", LOSSES)
    keys = ["loss", "seed", "what"]
    last = beside(tidy, tidy[tidy.way == "last"], keys).value
    end, start = (course[course.epoch == epoch] for epoch in (LAST, START))
    rise = end.assign(value=end.value - beside(end, start, ["loss", "seed", "by"]).value)
    beside_last = tidy.assign(value=tidy.value - last)
    return {"kept": tidy, "beside_last": beside_last, "courses": course, "rise": rise}


def tables(of: Frames) -> Tables:
    parts: list[tuple[list[str], dict[str, Any]]] = [(["epoch"], {"digits": 1, "scale": 1}), (["error"], {})]
    parts.append((["NLL", "NLL with T"], {"digits": 3, "scale": 1}))
    kept = [(ordered(of["kept"], "what", {name: name for name in names}), form) for names, form in parts]
    columns = [pivot(frame, ["loss", "way"], ["what"], "value", **form) for frame, form in kept]
    return {"short": means_only(pd.concat(columns, axis=1), "error")}


def figure(of: Frames) -> Figure:
    whole = Figure(figsize=(9.6, 3.2), layout="constrained")
    axes = whole.subplots(1, len(LOSSES), sharey=True)
    for ax, (loss, part) in zip(axes, of["courses"].groupby("loss", observed=True), strict=True):
        for place, (by, label) in enumerate({"by NLL": "NLL", "by NLL after T": "NLL after T"}.items()):
            draw_course(ax, place, part[part.by == by], label)
        for drop in DROPS:
            ax.axvline(drop + 0.5, color=GREY, linewidth=0.8)
        ax.set_title(str(loss), fontsize="medium")
        ax.set_xlabel("epoch")
    axes[0].set_ylabel("NLL, held-out images")
    axes[0].legend(frameon=False)
    return whole
