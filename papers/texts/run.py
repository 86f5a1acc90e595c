"""Which loss is calibrated on texts?"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from calibrant.calibrators.fitting.results import fitted_number
from calibrant.predictions import Predictions, load_predictions
from calibrant_lab.sweep.tasks.task import RunResult
from papers.analysis import Frames, Tables, flat_runs, means_only, pivot, relative
from papers.loss_rows import called, frames_of, gamma_3, printed, repaired, scheduled
from papers.losses.run import BY_ADAPTIVE_ECE, BY_ECE, CALIBRATED, measured

STAGES = {"by-ece": BY_ECE, "by-adaptive-ece": BY_ADAPTIVE_ECE, **{name: name for name in CALIBRATED}}
"""What is fitted on the held-out texts, by the name of the stage."""
DATA = {"newsgroups20": "20 Newsgroups", "ag_news_subset": "AG News"}
ROWS = {
    "20 Newsgroups": ("mukhoti-2020", "20-Newsgroups"),
    "AG News": ("focal-calibration-loss-2025", "AG-News"),
}
LOSSES = {
    "cross-entropy": "cross-entropy",
    "cross-entropy, weight decay": "cross-entropy, weight decay",
    **called(*(f"focal, γ = {gamma}" for gamma in (1, 2, 3)), "FLSD-53", "FLSD-532"),
    **scheduled(5, 14),
    "brier": "Brier",
    "mmce(penalty=8)": "MMCE",
    **called("label smoothing", "dual focal"),
    "focal-calibration(gamma=4, calibration_weight=3)": "FCL",
    "focal-calibration(gamma=3, calibration_weight=0.5)": "FCL, γ = 3, λ = 0.5",
}
HIDDEN = ("focal, γ = 1", "focal, γ = 2", "FCL, γ = 3, λ = 0.5")
"""Losses that the short table leaves out."""
KEYS = ("data", "loss", "seed")


def keep(result: RunResult) -> dict[str, Any]:
    accuracies = [row["calibration_accuracy"] for row in result.rows]
    return {
        "cpu_seconds": result.cpu_seconds,
        "train_accuracy": result.rows[-1]["train_accuracy"],
        "kept_epoch": accuracies.index(max(accuracies)) + 1,
        "accuracies": accuracies,
        "temperatures": [row["calibration_temperature"] for row in result.rows],
        **judged(load_predictions(result.file("predictions.npz"))),
    }


def judged(predictions: Predictions) -> dict[str, Any]:
    """The metrics of test samples, as trained and after all that held-out samples fit, and what these fit."""
    fits, probs = repaired(predictions, STAGES)

    def number(stage: str, name: str = "temperature") -> float:
        return fitted_number(fits[stage].fit_result_, name)

    return {
        "stages": {stage: measured(each, predictions.test.labels) for stage, each in probs.items()},
        "parameters": {
            "temperature": number("temperature"),
            "ece_temperature": number("by-ece"),
            "adaptive_ece_temperature": number("by-adaptive-ece"),
            "focal_temperature": number("focal-temperature"),
            "gamma": number("focal-temperature", "gamma"),
        },
    }


def frames(results: Mapping[str, Any]) -> Frames:
    """``judged`` by stage, ``errors`` by how T is chosen, ``fitted``, and the ``cost`` in accuracy."""
    runs = [
        {
            **run,
            "data": DATA[run["data.name"].partition("(")[0]],
            "loss": run["loss"] + ", weight decay" * (run["optimiser.weight_decay"] > 0),
            "parameters": {**run["parameters"], "last": run["temperatures"][-1]},
        }
        for run in flat_runs(results)
    ]
    tidy = frames_of(runs, KEYS, LOSSES)
    metrics = ["ece", "adaptive_ece", "classwise_ece", "smce"]
    as_trained = tidy["judged"].query("stage == 'before'")
    newsgroups = tidy["errors"].query("data == '20 Newsgroups' and stage == 'as trained'")
    return {
        **tidy,
        "by_ece": tidy["judged"].melt([*KEYS, "stage"], metrics, "metric"),
        "gamma_3": gamma_3(newsgroups, ["metric"]),
        "cost": relative(as_trained, ["data", "seed"], "error"),
    }


def tables(found: Frames) -> Tables:
    ece = found["errors"].query("metric == 'ECE'")
    parts = {}
    for data, paper in ROWS.items():
        ours = pivot(ece.loc[ece.data == data], ["loss"], ["stage"], "value")
        short = ours.assign(paper=printed(*paper)["ECE pre"])
        parts[f"{data},"] = short[["as trained", "paper", "with T"]]
    short = pd.concat(parts, axis=1).reindex(list(LOSSES.values())).fillna("–").rename_axis("loss")
    short = short.drop(index=list(HIDDEN), columns=[("AG News,", "with T")])
    fitted = found["fitted"].melt(KEYS, ["temperature", "last"], "of")
    return {
        "short": means_only(short, *((f"{data},", "as trained") for data in ROWS)),
        "ece": pivot(found["judged"], ["data", "loss"], ["stage"], "ece"),
        "T": pivot(fitted, ["data", "loss"], ["of"], "value", scale=1),
    }
