"""Does focal loss calibrate by lowering the curvature of the loss?

The abstract of Kimura and Naganuma (2024) says so. Here small networks are trained with focal loss, with a
penalty on the trace of the Hessian, and with sharpness-aware minimisation (SAM), and measured at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from calibrant.reports.figures.drawing import GREY
from calibrant_lab.reports.curvature import scatter
from papers.analysis import Frames, Tables, beside, flat_runs, means_only, ordered, pivot
from papers.curvature.measure import ARMS

DIGITS = 4
SETTINGS = {
    "digits-plain": "digits",
    "digits-norm": "digits, BatchNorm",
    "fashion-plain": "Fashion-MNIST",
    "fashion-norm": "Fashion-MNIST, BatchNorm",
}
PLAIN = "cross-entropy"
FAMILIES = {
    "focal-no-decay": "no weight decay",
    "focal-low-rate": "low rate",
    "focal": "focal",
    "trace": "trace penalty",
    "sam": "SAM",
}
CURVATURE = [f"{name}, {loss}" for loss in ("own loss", PLAIN) for name in ("λ_max", "trace")]
OUTCOMES = {"ece": "ECE", "ece_after": "ECE after T", "overconfidence": "overconfidence"}


def frames(results: Mapping[str, Any]) -> Frames:
    """``runs``; ``ranks``, correlations over the exponents; ``changes`` from plain cross-entropy."""
    found = pd.DataFrame(
        {
            **{name: run[name] for name in ("setting", "arm", "seed", "error", "temperature", *OUTCOMES)},
            "family": next(title for name, title in FAMILIES.items() if run["arm"].startswith(name)),
            "gamma": ARMS[run["arm"]].get("gamma", 0),
            **{
                f"{title}, {loss}": run[key][name]
                for key, loss in (("own", "own loss"), ("cross_entropy", PLAIN))
                for name, title in (("lambda_max", "λ_max"), ("trace", "trace"))
            },
        }
        for run in flat_runs(results)
    )
    runs = ordered(ordered(found, "setting", SETTINGS), "arm", {name: _title(name) for name in ARMS})
    return {"runs": runs, "ranks": _ranks(runs), "changes": _changes(runs)}


def _title(arm: str) -> str:
    family, _, number = arm.rpartition("-")
    if family.startswith("focal"):
        name = PLAIN if number == "0" else f"focal, γ = {number}"
        return name if family == "focal" else f"{name}, {FAMILIES[family]}"
    return f"SAM, ρ = {number}" if family == "sam" else f"trace penalty, {number}"


def _ranks(runs: pd.DataFrame) -> pd.DataFrame:
    """Spearman's correlation of curvature with γ and with outcomes over exponents, averaged over seeds.

    Its standard error is that of random orders of the exponents: equal ranks in all seeds would otherwise
    have none.
    """
    focal = runs[~runs.family.isin(["trace penalty", "SAM"])]
    found = pd.DataFrame(
        {
            "setting": setting,
            "family": family,
            "seed": seed,
            "quantity": quantity,
            "other": title,
            "value": of[quantity].rank().corr(of[other].rank()),
            "variance": 1 / (len(of) - 1),
        }
        for (setting, family, seed), of in focal.groupby(["setting", "family", "seed"], observed=True)
        for quantity in CURVATURE
        for other, title in {"gamma": "γ", **OUTCOMES}.items()
    )
    groups = found.groupby(["setting", "family", "quantity", "other"], observed=True, sort=False)
    error = np.sqrt(groups.variance.mean() / groups.size())
    return groups.value.mean().to_frame().assign(standard_error=error).reset_index()


def _changes(runs: pd.DataFrame) -> pd.DataFrame:
    """Differences from plain cross-entropy of the same seed, of curvature as logarithms of ratios."""
    numbers = ["error", *OUTCOMES, *CURVATURE]
    logs = runs.assign(**np.log(runs[CURVATURE]))
    rows = logs[(runs.family == "focal") & (runs.gamma > 0) | runs.family.isin(["trace penalty", "SAM"])]
    plain = logs[runs.arm == PLAIN]
    return rows.assign(**rows[numbers] - beside(rows, plain, ["setting", "seed"])[numbers])


def tables(found: Frames) -> Tables:
    shown = {name: name for name in (PLAIN, "focal, γ = 3", "SAM, ρ = 0.2")}
    rows, form = ordered(found["runs"], "arm", shown), {"digits": 1, "scale": 1}
    heads = ("trace, own loss", f"trace, {PLAIN}", "ece", "ece_after")
    parts = [pivot(rows, ["setting", "arm"], [], name, **(form if "," in name else {})) for name in heads]
    titles = {"ece": "ECE %", "ece_after": "ECE % after T"}
    return {
        "short": means_only(pd.concat(parts, axis=1).rename(columns=titles), "ECE %"),
        "error": pivot(found["runs"], ["arm"], ["setting"], "error"),
    }


def figure(found: Frames) -> Figure:
    """ECE against the trace, of the loss that is trained and of cross-entropy; a column for each setting."""
    runs = found["runs"].query("family in ['focal', 'trace penalty', 'SAM']")
    whole = Figure(figsize=(8.6, 4.6), layout="constrained")
    panels = whole.subplots(2, len(SETTINGS), sharey=True)
    for column, (setting, of) in enumerate(runs.groupby("setting", observed=True)):
        for ax, loss in zip(panels[:, column], ("own loss", PLAIN), strict=True):
            for family, mark in (("trace penalty", "x"), ("SAM", "+")):
                points = of[of.family == family]
                x, y = points[f"trace, {loss}"], 100 * points.ece
                ax.plot(x, y, mark, color=GREY, markersize=5, label=family)
            focal = of[of.family == "focal"].groupby("arm", observed=True)
            scatter(ax, {arm: (each[f"trace, {loss}"], 100 * each.ece) for arm, each in focal})
            ax.set_xlabel(f"trace, {loss}")
        panels[0, column].set_title(setting, fontsize="medium")
    for ax in panels[:, 0]:
        ax.set_ylabel("test ECE in %")
    whole.legend(
        *panels[0, 0].get_legend_handles_labels(),
        ncols=7,
        fontsize="small",
        columnspacing=1,
        loc="outside lower center",
    )
    return whole
