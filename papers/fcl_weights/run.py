"""How much weight does focal calibration loss (FCL) need, and does it learn smoother boundaries?"""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from calibrant.reports.figures import series
from calibrant_lab.sweep.kept_runs import shortened
from calibrant_lab.sweep.tasks.task import RunResult
from papers.analysis import Frames, Tables, by_stage, flat_runs, mean_ci, means_only, pivot
from papers.loss_rows import USUAL

GAMMAS, WEIGHTS = (0, 1, 2, 3, 5), (0.0, 0.5, 1.0, 2.0)
DROP = 9
"""The last epoch at the first learning rate."""
NEAR = 1.05
"""An epoch is near the least held-out NLL of its training where its own is at most this times it."""
BY_ECE = "temperature(objective='ece', search='grid')"
STAGES = {"as trained": "before", "with T": "after"}
BOUNDARIES = {"cross-entropy": (0.0, 0.0), "focal": (10.0, 0.0), "focal-calibration": (10.0, 1.5)}
"""Exponent and weight of the networks on half-moons."""
BOUNDARY_SEEDS = 10


def keep(result: RunResult) -> dict[str, Any]:
    """Metrics as trained and with the temperature that ECE chose, and the course of the held-out NLL."""
    course = [row["calibration_nll"] for row in result.rows]
    stages = {"before": result.metrics["uncalibrated"], "after": result.metrics[BY_ECE]}
    return {
        "cpu_seconds": result.cpu_seconds,
        **{stage: {name: of[name] for name in USUAL.values()} for stage, of in stages.items()},
        "temperature": result.parameters[BY_ECE]["temperature"],
        "epochs": next(epoch for epoch, nll in enumerate(course, 1) if nll <= NEAR * min(course)),
        "early": sum(course[:DROP]) / DROP,
    }


def also() -> dict[str, Any]:
    """What small networks on two half-moons learn, by loss and seed."""
    from calibrant_lab.figures.curves import boundary_numbers

    found = [
        {"arm": key, "runs": [boundary_numbers(*of, seed=seed) for seed in range(BOUNDARY_SEEDS)]}
        for key, of in BOUNDARIES.items()
    ]
    return {"boundaries": shortened(found, 6)}


def frames(results: Mapping[str, Any]) -> Frames:
    """``errors`` by γ, λ, stage and metric, what T ``gained``, ``runs`` with T and epochs, ``boundaries``."""
    errors, runs = [], []
    for run in flat_runs(results):
        key = {**_arm(run["loss"]), "seed": run["seed"]}
        runs.append({**key, **{name: run[name] for name in ("temperature", "epochs", "early")}})
        errors += by_stage(key, run, STAGES, USUAL)
    tidy = pd.DataFrame(errors).sort_values(["gamma", "weight"], kind="stable")
    both = tidy.pivot_table("value", ["gamma", "weight", "metric", "seed"], "stage").reset_index()
    return {
        "errors": tidy,
        "gained": both.assign(value=both["as trained"] - both["with T"]),
        "runs": pd.DataFrame(runs).sort_values(["gamma", "weight"], kind="stable"),
        "boundaries": pd.DataFrame(
            {"loss": arm["arm"], **run} for arm in results["also"]["boundaries"] for run in arm["runs"]
        ),
    }


def _arm(loss: str) -> dict[str, Any]:
    """Exponent and weight of a loss as the grid spells it.

    Example:
        >>> _arm("focal-calibration(gamma=3, calibration_weight=0.5)")
        {'loss': 'γ = 3, λ = 0.5', 'gamma': 3, 'weight': 'λ = 0.5'}
    """
    numbers = dict(re.findall(r"(gamma|calibration_weight)=([\d.]+)", loss))
    gamma = int(numbers.get("gamma", 0))
    weight = f"λ = {float(numbers.get('calibration_weight', 0)):g}{', L1' if 'l1' in loss else ''}"
    return {"loss": f"γ = {gamma}, {weight}", "gamma": gamma, "weight": weight}


def tables(of: Frames) -> Tables:
    errors, runs = (of[name].assign(γ=of[name].gamma) for name in ("errors", "runs"))
    errors = errors.query("metric == 'ECE' and stage == 'as trained'")
    ece = pivot(errors, ["γ"], ["weight"], "value").drop(columns="λ = 0.5, L1")
    temperature = pivot(runs, ["γ"], ["weight"], "temperature", scale=1)[["λ = 0", "λ = 0.5"]]
    whole = ece.rename(columns="ECE, {}".format).join(temperature.rename(columns="T, {}".format))
    return {"short": means_only(whole, "ECE, λ = 0.5")}


def figure(of: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 3.4), layout="constrained")
    axes = whole.subplots(1, 2, sharey=True)
    for ax, stage in zip(axes, STAGES, strict=True):
        part = of["errors"].query("metric == 'ECE' and stage == @stage")
        for place, gamma in enumerate(GAMMAS):
            values = [part[(part.gamma == gamma) & (part.weight == f"λ = {w:g}")].value for w in WEIGHTS]
            means, halves = zip(*map(mean_ci, values), strict=True)
            colour, mark, _ = series(place)
            scaled = ([100 * each for each in found] for found in (means, halves))
            ax.errorbar(WEIGHTS, *scaled, color=colour, marker=mark, markersize=4, label=f"γ = {gamma}")
        ax.set(title=stage, xlabel="λ, weight of the squared distance", xticks=WEIGHTS)
    axes[0].set(ylabel="ECE in %", ylim=(0, None))
    axes[1].legend(loc="best")
    return whole
