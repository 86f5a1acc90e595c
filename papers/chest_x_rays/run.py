# pyright: basic
"""Do the probabilities of networks on chest X-rays need a repair?

Small DenseNets with three losses on X-rays of three classes, and public predictions of a DenseNet-121 for the
fourteen findings of ChestX-ray14.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from calibrant_lab.sweep.published import facts
from papers.analysis import Frames, Tables, flat_runs, ordered
from papers.chest_x_rays.measure import also as also
from papers.chest_x_rays.measure import keep as keep

DIGITS = 8
LOSSES = {
    "cross-entropy": "cross-entropy",
    "focal(gamma=3)": "focal, γ = 3",
    "focal-calibration(gamma=3, calibration_weight=0.5)": "FCL, γ = 3, λ = 0.5",
}
PRINTED = {"bce": "CheXNet, printed", "focal-calibration": "FCL, printed"}
"""Methods of table 9 of the paper on focal calibration loss."""


def frames(results: Mapping[str, Any]) -> Frames:
    """``judged`` by loss and stage, and the fourteen ``labels``; a number has its interval beside it."""
    judged = [
        {"loss": run["loss"], "seed": run["seed"], "stage": stage, "auroc": run["pair"]["auroc"], **run[of]}
        for run in flat_runs(results)
        for stage, of in (("as trained", "before"), ("with T", "after"))
    ]
    labels = pd.DataFrame(results["also"]["labels"])
    return {
        "judged": ordered(pd.DataFrame(judged), "loss", LOSSES),
        "labels": labels.assign(label=labels.label.str.replace("_", " "), num=results["also"]["num"]),
    }


def tables(found: Frames) -> Tables:
    """What a repair does to each network, and each label beside the printed numbers."""
    means = _means(found["labels"])
    wide = found["judged"].set_index(["loss", "stage"])[["ece", "nll", "auroc"]].map(_cell).unstack("stage")
    short = pd.DataFrame(
        {
            "ECE, as trained": wide["ece", "as trained"],
            "ECE, repaired": wide["ece", "with T"],
            "log loss, as trained": wide["nll", "as trained"],
            "log loss, repaired": wide["nll", "with T"],
            "AUROC": wide["auroc", "as trained"],
        }
    )
    short.loc["public predictions, mean"] = [means["before"], means["after"], "–", "–", means["auroc"]]
    return {"short": short.rename_axis("network"), "labels": _labels(found["labels"], means)}


def _labels(labels: pd.DataFrame, means: Mapping[str, str]) -> pd.DataFrame:
    printed = {
        (fact.method, fact.metric): fact.value
        for fact in facts("focal-calibration-loss-2025")
        if fact.table == "9"
    }
    names = labels.label.str.replace(" ", "-")
    found = {
        title: [printed.get((method, f"AUROC(class={name})"), "–") for name in names]
        for method, title in PRINTED.items()
    }
    table = pd.DataFrame(
        {
            **found,
            "AUROC": labels.auroc.map(_cell),
            "positives": (labels.positives / labels.num).map("{:.3f}".format),
            "mean probability": labels["mean"].map("{:.3f}".format),
            "ECE, as it comes": labels.before.map(_cell),
            "ECE, Platt scaling": labels.after.map(_cell),
        }
    ).set_axis(labels.label)
    ours = [means[name] for name in ("auroc", "positives", "mean", "before", "after")]
    table.loc["mean"] = [*(printed[method, "AUROC(average)"] for method in PRINTED), *ours]
    table.loc["mean ECE, printed"] = [*(printed[method, "ECE"] for method in PRINTED), *["–"] * len(ours)]
    return table


def _means(labels: pd.DataFrame) -> dict[str, str]:
    values = {name: labels[name].str[0] for name in ("auroc", "before", "after")}
    values |= {"mean": labels["mean"], "positives": labels.positives / labels.num}
    return {name: f"{of.mean():.3f}" for name, of in values.items()}


def _cell(found: Sequence[float | None]) -> str:
    value, low, high = found
    return "–" if value is None else f"{value:.3f} ({low:.3f} to {high:.3f})"
