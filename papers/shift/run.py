"""Does a repair survive image corruption, and which losses recognise foreign images?

A small network is trained on 10,000 images of Fashion-MNIST with each of eight losses. Calibrators are fitted
on clean images, and judged on clean ones, on fifteen corruptions (Hendrycks and Dietterich 2019) at five
severities, and on images of other sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION
from calibrant_lab.sweep.tasks.task import RunResult
from papers.analysis import Frames, Tables, beside, flat_runs, mean_ci, means_only, ordered, pivot
from papers.loss_rows import called
from papers.shift.measure import SEVERITIES, STAGES, by_severity

LOSSES = called(
    *("cross-entropy", "focal, γ = 3", "FLSD-53", "FCL", "label smoothing", "Brier", "MMCE", "dual focal")
)
KEPT = ("train_accuracy", "temperature", "clean", "clean_shown", "foreign")


def keep(result: RunResult) -> dict[str, Any]:
    """Means over corruptions by severity, and the ECE under each corruption."""
    found = result.rows[0]
    shifts = pd.DataFrame(
        {"corruption": each["corruption"], "severity": each["severity"], "stage": stage, **each[stage]}
        for each in found["shifts"]
        for stage in STAGES
    )
    names = list(dict.fromkeys(shifts.corruption))
    errors = shifts.set_index(["corruption", "stage", "severity"]).ece
    return {
        **{name: found[name] for name in KEPT},
        "cpu_seconds": result.cpu_seconds,
        "severities": by_severity(found["shifts"]),
        "corruptions": {
            name: {stage: [errors[name, stage, s] for s in SEVERITIES] for stage in STAGES} for name in names
        },
    }


def frames(results: Mapping[str, Any]) -> Frames:
    """``judged`` by stage and place, ``corrupted`` by corruption, and ``foreign`` by set."""
    judged, corrupted, foreign = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for run in flat_runs(results):
        for stage in STAGES:
            key = {"loss": run["loss"], "seed": run["seed"], "stage": stage}
            judged += [{**key, "place": place, **run[place][stage]} for place in ("clean", "clean_shown")]
            judged += [
                {**key, "place": f"severity {severity}", **each}
                for severity, each in zip(SEVERITIES, run["severities"][stage], strict=True)
            ]
            corrupted += [
                {**key, "corruption": name, "severity": severity, "ece": ece}
                for name, of in run["corruptions"].items()
                for severity, ece in zip(SEVERITIES, of[stage], strict=True)
            ]
            foreign += [{**key, "set": name, **of[stage]} for name, of in run["foreign"].items()]
    found = {"judged": judged, "corrupted": corrupted, "foreign": foreign}
    tidy = {name: ordered(pd.DataFrame(rows), "loss", LOSSES) for name, rows in found.items()}
    return {**tidy, "above_clean": _above_clean(tidy)}


def _above_clean(found: Frames) -> pd.DataFrame:
    """ECE at severity 5 less that of the same images when clean, after temperature scaling."""
    scaled = found["judged"].query("stage == 'temperature'")
    clean = scaled.query("place == 'clean_shown'")
    means = scaled.query("place == 'severity 5'").assign(corruption="mean of all")
    each = found["corrupted"].query("stage == 'temperature' and severity == 5 and loss == 'cross-entropy'")
    rows = pd.concat([means, each], ignore_index=True)
    return rows.assign(value=rows.ece - beside(rows, clean, ["loss", "seed"]).ece)


def tables(found: Frames) -> Tables:
    judged = found["judged"].query("place in ['clean_shown', 'severity 5']")
    judged = judged.assign(place=judged.place.replace("clean_shown", "clean"))
    judged = ordered(judged, "stage", {"as-trained": "as trained,", "temperature": "with T,"})
    wide = pivot(judged, ["loss"], ["stage", "place"], "ece")
    return {"short": means_only(wide, ("with T,", "severity 5"))}


def figure(found: Frames) -> Figure:
    """ECE against severity, as trained and after temperature scaling; a line for each loss."""
    whole = Figure(figsize=(8.4, 3.4), layout="constrained")
    places = ["clean_shown", *(f"severity {severity}" for severity in SEVERITIES)]
    left, right = whole.subplots(1, 2, sharey=True)
    colours = {"cross-entropy": VERMILLION, "focal, γ = 3": BLUE}
    for ax, stage in ((left, "as-trained"), (right, "temperature")):
        part = found["judged"][found["judged"].stage == stage]
        for loss, of in part.groupby("loss", observed=True):
            means = [100 * mean_ci(of[of.place == place].ece)[0] for place in places]
            colour, width = colours.get(str(loss), GREY), 2 if loss in colours else 0.8
            ax.plot(range(6), means, color=colour, linewidth=width, label=loss if loss in colours else None)
        ax.set(title=stage.replace("-", " "), xlabel="severity of the corruption (0: clean)")
    left.set(ylabel="ECE in %", ylim=(0, None))
    left.plot([], [], color=GREY, linewidth=0.8, label="six other losses")
    left.legend(loc="best")
    return whole
