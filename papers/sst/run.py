# pyright: basic
"""Which loss is calibrated on a task of two classes?

The Tree-LSTM of Mukhoti et al. (2020) on the binary Stanford Sentiment Treebank, with fifteen losses. It
learns three classes and is judged by two: as the authors do, with the neutral class struck out, and
renormalised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from calibrant import theory
from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION
from papers.analysis import Frames, Tables, flat_runs, less, mean_ci, pivot, relative
from papers.loss_rows import frames_of, printed
from papers.sst.measure import RENORMALISED, STRUCK
from papers.sst.measure import keep as keep

LOSSES = {
    "cross-entropy": "cross-entropy",
    "focal(gamma=1)": "focal, γ = 1",
    "focal(gamma=2)": "focal, γ = 2",
    "focal(gamma=3)": "focal, γ = 3",
    "sample-focal": "FLSD-53",
    "sample-focal(thresholds=(0.2, 0.5, 1.0), gammas=(5, 3, 2))": "FLSD-532",
    "scheduled-focal(gammas=(5, 3, 1), milestones=(3, 7))": "FLSc-531",
    "scheduled-focal(gammas=(5, 3, 2), milestones=(3, 7))": "FLSc-532",
    "brier": "Brier",
    "mmce(penalty=1)": "MMCE",
    "mmce": "MMCE, λ = 2",
    "label-smoothing(smoothing=0.05)": "label smoothing",
    "dual-focal(gamma=5)": "dual focal",
    "adafocal": "AdaFocal",
    "focal-calibration(gamma=3, calibration_weight=0.5)": "FCL",
}
PAPER = ("mukhoti-2020", "SST-Binary")
KEYS = ("loss", "seed", "convention")


def frames(results: Mapping[str, Any]) -> Frames:
    """``judged`` by stage, ``errors`` by how T is chosen, ``fitted``, and what is derived from them."""
    runs = [
        {**run, **of, "convention": convention}
        for run in flat_runs(results)
        for convention, of in run["conventions"].items()
    ]
    found = frames_of(runs, KEYS, LOSSES)
    as_trained = found["judged"].query("stage == 'before'")
    means = found["judged"].groupby(["convention", "stage", "seed"], as_index=False).ece.mean()
    return {
        **found,
        "gamma_3": less(
            found["errors"].query("convention == 'struck' and stage == 'as trained'"),
            "focal, γ = 3",
            ["focal, γ = 1", "focal, γ = 2"],
            ["metric"],
        ),
        "means": means,
        "cost": relative(as_trained, ["seed", "convention"], "error"),
        "distances": _distances(as_trained),
        "ratios": _ratios([run for run in runs if run["convention"] == RENORMALISED]),
    }


def _distances(as_trained: pd.DataFrame) -> pd.DataFrame:
    """How far our numbers are from the printed ones, in their unit, on average over the losses."""
    theirs = printed(*PAPER).astype(float)
    rows = as_trained[as_trained.loss.isin(theirs.index)]
    found = []
    for column, metric in (("ece", "ECE"), ("nll", "NLL"), ("mce", "MCE")):
        wanted = rows.loss.map(theirs[f"{metric} pre"]).astype(float)
        found.append(rows.assign(metric=metric, value=(100 * rows[column] - wanted).abs()))
    return pd.concat(found).groupby(["convention", "metric", "seed"], as_index=False, sort=False).value.mean()


def _ratios(runs: list[dict[str, Any]]) -> pd.DataFrame:
    """Focal loss's temperature over cross-entropy's after the same epoch, and over what theory says it is."""
    plain = {run["seed"]: run["temperatures"] for run in runs if run["loss"] == "cross-entropy"}
    rows = []
    for gamma in (1, 2, 3):
        wanted = theory.closest_temperature(gamma).temperature
        for run in (run for run in runs if run["loss"] == f"focal(gamma={gamma})"):
            for when, epoch in (("kept epoch", run["kept_epoch"]), ("last epoch", len(run["temperatures"]))):
                ratio = run["temperatures"][epoch - 1] / plain[run["seed"]][epoch - 1]
                row = {"gamma": gamma, "when": when, "seed": run["seed"], "ratio": ratio, "predicted": wanted}
                rows.append({**row, "value": ratio / wanted})
    return pd.DataFrame(rows)


def tables(found: Frames) -> Tables:
    """ECE beside the printed one, ratios of temperatures, and means over the losses."""
    theirs = printed(*PAPER)
    ece = found["errors"].query("metric == 'ECE'")
    struck, both = (
        pivot(ece.query("convention == @name"), ["loss"], ["stage"], "value")
        for name in (STRUCK, RENORMALISED)
    )
    short = {
        "as trained": struck["as trained"],
        "paper": theirs["ECE pre"],
        "with T": struck["with T"],
        "paper, with T": theirs["ECE post"],
        "renormalised, as trained": both["as trained"],
    }
    ratios = pivot(found["ratios"], ["gamma"], ["when"], "ratio", scale=1)
    predicted = found["ratios"].groupby("gamma").predicted.first().map("{:.2f}".format)
    return {
        "short": pd.DataFrame(short).loc[[name for name in struck.index if name in theirs.index]],
        "ratios": ratios.assign(predicted=predicted),
        "means": pivot(found["means"], ["convention"], ["stage"], "ece"),
    }


def figures(found: Frames) -> dict[str, Figure]:
    """ECE as trained under both conventions, and the printed one; a row for each loss of the paper."""
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    ax = figure.subplots()
    theirs = printed(*PAPER)["ECE pre"]
    names = [name for name in LOSSES.values() if name in theirs]
    part = found["judged"].query("stage == 'before'")
    for convention, label, colour, shift in (
        (STRUCK, "neutral class struck out", VERMILLION, -0.12),
        (RENORMALISED, "renormalised", BLUE, 0.12),
    ):
        of = part[part.convention == convention].groupby("loss", observed=True).ece
        means = [mean_ci(100 * of.get_group(name)) for name in names]
        centres, halves = zip(*means, strict=True)
        places = [place + shift for place in range(len(names))]
        ax.errorbar(centres, places, xerr=halves, fmt="o", markersize=4, color=colour, label=label)
    ax.plot(theirs[names].astype(float), range(len(names)), "D", color=GREY, markersize=4, label="printed")
    ax.set(xlabel="ECE in %, as trained", xlim=(0, None), yticks=range(len(names)), yticklabels=names)
    ax.invert_yaxis()
    ax.legend(loc="best")
    return {"sst.svg": figure}
