"""The tables of the page on chest X-rays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant_lab.sweep.published import facts
from papers.pages import table
from papers.study import Runs

SHOWN = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE", "smce": "smCE"}
LOSSES = {
    "cross-entropy": "cross-entropy",
    "focal(gamma=3)": "focal, γ = 3",
    "focal-calibration(gamma=3, calibration_weight=0.5)": "FCL, γ = 3, λ = 0.5",
}
SEEDS = 1  # of the grid
PAPER, TABLE = "focal-calibration-loss-2025", "9"
COLUMNS = {"bce": "CheXNet (BCE), printed", "focal-calibration": "FCL, printed"}


def numbers_of(runs: Runs, also: Mapping[str, Any]) -> dict[str, Any]:
    """The runs in the order of the losses, and the fourteen labels."""
    order = list(LOSSES)
    kept = sorted(runs, key=lambda run: (order.index(run["loss"]), run["seed"]))
    return {"runs": kept, "fourteen": also}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    runs, fourteen = numbers["runs"], numbers["fourteen"]
    return {
        "losses": _losses(runs),
        "labels": _labels(fourteen["labels"]) if fourteen else "",
        "mean": _mean([each["mean"] for each in fourteen["labels"]]) if fourteen else 0.0,
        "prevalence": _mean([each["positives"] / fourteen["num"] for each in fourteen["labels"]])
        if fourteen
        else 0.0,
        "first": runs[0],
        "seeds": len({run["seed"] for run in runs}),
        "seeds_wanted": SEEDS,
        "runs_done": len(runs),
        "runs_wanted": SEEDS * len(LOSSES),
        "minutes": sum(run["cpu_seconds"] for run in runs) / 60,
    }


def _losses(runs: Runs) -> str:
    """A row for each training and stage."""
    rows = [
        [
            LOSSES[run["loss"]] if stage == "before" else "",
            f"{run['seed']}" if stage == "before" else "",
            "as trained" if stage == "before" else f"T = {run['temperature']:.2f}",
            *(_cell(run[stage][name]) for name in SHOWN),
            _cell(run["pair"]["auroc"]) if stage == "before" else "",
        ]
        for run in runs
        for stage in ("before", "after")
    ]
    return table(["loss", "seed", "stage", *SHOWN.values(), "AUROC, pneumonia"], rows)


def _labels(labels: Sequence[Mapping[str, Any]]) -> str:
    """A row for each finding, and what the paper prints as their averages."""
    printed = {
        (fact.method, fact.metric): fact.value for fact in facts(PAPER) if fact.table == TABLE
    }  # as printed, trailing zeros too
    rows = [
        [
            each["label"].replace("_", " "),
            *(
                printed.get((method, f"AUROC(class={each['label'].replace('_', '-')})"), "–")
                for method in COLUMNS
            ),
            _cell(each["auroc"]),
            f"{each['positives']}",
            f"{each['mean']:.3f}",
            _cell(each["before"]),
            _cell(each["after"]),
        ]
        for each in labels
    ]
    averages = {
        key: f"{_mean([each[key][0] for each in labels]):.3f}" for key in ("auroc", "before", "after")
    }
    rows += [
        [
            "mean",
            *(printed[method, "AUROC(average)"] for method in COLUMNS),
            averages["auroc"],
            "",
            "",
            averages["before"],
            averages["after"],
        ],
        ["mean ECE, printed", *(printed[method, "ECE"] for method in COLUMNS), *[""] * 5],
    ]
    heads = ["label", *COLUMNS.values(), "public predictions", "positives", "mean probability"]
    return table([*heads, "ECE, as it comes", "ECE, Platt scaling"], rows)


def _cell(found: Sequence[float | None]) -> str:
    value, low, high = found
    if value is None:
        return "–"
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f} ({low:.3f} to {high:.3f})"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
