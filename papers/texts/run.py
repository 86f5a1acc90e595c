# pyright: basic
"""Which loss is calibrated on texts?

A convolutional network on 20 Newsgroups, with the losses of Mukhoti et al. (2020), and on a subset of AG
News, with those of the paper on focal calibration loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from papers.analysis import Frames, Tables, flat_runs, less, pivot, relative
from papers.loss_rows import frames_of, printed
from papers.texts.measure import keep as keep

DATA = {"newsgroups20": "20 Newsgroups", "ag_news_subset": "AG News"}
ROWS = {
    "20 Newsgroups": ("mukhoti-2020", "20-Newsgroups"),
    "AG News": ("focal-calibration-loss-2025", "AG-News"),
}
LOSSES = {
    "cross-entropy": "cross-entropy",
    "cross-entropy, weight decay": "cross-entropy, weight decay",
    "focal(gamma=1)": "focal, γ = 1",
    "focal(gamma=2)": "focal, γ = 2",
    "focal(gamma=3)": "focal, γ = 3",
    "sample-focal": "FLSD-53",
    "sample-focal(thresholds=(0.2, 0.5, 1.0), gammas=(5, 3, 2))": "FLSD-532",
    "scheduled-focal(gammas=(5, 3, 1), milestones=(5, 14))": "FLSc-531",
    "scheduled-focal(gammas=(5, 3, 2), milestones=(5, 14))": "FLSc-532",
    "brier": "Brier",
    "mmce(penalty=8)": "MMCE",
    "label-smoothing(smoothing=0.05)": "label smoothing",
    "dual-focal(gamma=5)": "dual focal",
    "focal-calibration(gamma=4, calibration_weight=3)": "FCL",
    "focal-calibration(gamma=3, calibration_weight=0.5)": "FCL, γ = 3, λ = 0.5",
}
HIDDEN = ("focal, γ = 1", "focal, γ = 2", "FCL, γ = 3, λ = 0.5")
"""Losses that the short table leaves out."""
KEYS = ("data", "loss", "seed")


def frames(results: Mapping[str, Any]) -> Frames:
    """``judged`` by stage, ``errors`` by how T is chosen, ``fitted``, and the ``cost`` in accuracy."""
    runs = [
        {
            **run,
            "data": DATA[run["data.name"].partition("(")[0]],
            "loss": run["loss"] + ", weight decay" * (run["optimiser.weight_decay"] > 0),
            "last": run["temperatures"][-1],
        }
        for run in flat_runs(results)
    ]
    tidy = frames_of(runs, KEYS, LOSSES, ["last"])
    metrics = ["ece", "adaptive_ece", "classwise_ece", "smce"]
    as_trained = tidy["judged"].query("stage == 'before'")
    return {
        **tidy,
        "by_ece": tidy["judged"].melt([*KEYS, "stage"], metrics, "metric"),
        "gamma_3": less(
            tidy["errors"].query("data == '20 Newsgroups' and stage == 'as trained'"),
            "focal, γ = 3",
            ["focal, γ = 1", "focal, γ = 2"],
            ["metric"],
        ),
        "cost": relative(as_trained, ["data", "seed"], "error"),
    }


def tables(found: Frames) -> Tables:
    """ECE beside the printed one, errors and temperatures."""
    ece = found["errors"].query("metric == 'ECE'")
    parts = {}
    for data, paper in ROWS.items():
        ours = pivot(ece.loc[ece.data == data], ["loss"], ["stage"], "value")
        short = ours.assign(paper=printed(*paper)["ECE pre"])
        parts[f"{data},"] = short[["as trained", "paper", "with T"]]
    short = pd.concat(parts, axis=1).reindex(list(LOSSES.values())).fillna("–").rename_axis("loss")
    as_trained = found["judged"].query("stage == 'before'")
    return {
        "short": short.drop(index=list(HIDDEN)),
        "error": pivot(as_trained, ["data", "loss"], [], "error"),
        "T": pivot(found["fitted"], ["data", "loss"], [], "temperature", scale=1),
    }
