"""Is the best temperature linear in the exponent of focal temperature scaling?

Komisarenko and Kull (2024) saw in their figure 8 a relation close to linear, proposed to search
along the line only, and left open how good that is. What shares its data counts once: the labels of one file,
and the networks of one seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION, series
from papers.analysis import Frames, Tables, flat_runs, means_only, pivot, reaching
from papers.temperature_line.measure import GAMMAS, LOSSES, WORLDS

DIGITS = 8
CE = "cross-entropy"
TITLES = {name: name if name == CE else f"γ = {name[-2]}" for name in LOSSES}
FOCAL = ("γ = 1", "γ = 2", "γ = 3")
"""The losses of which it is claimed that they need a temperature nearer to 1."""
SPAN = (1.5, 3.0)
"""Cross-entropy's temperatures against which the paper holds focal loss's."""
GROUPS = ("files, two classes", "files, more classes", *WORLDS)
ZERO = GAMMAS.index(0.0)


def frames(results: Mapping[str, Any]) -> Frames:
    """``curves``, a row for each; ``units``, means over what shares its data; ``nearer``, by seed."""
    curves = pd.DataFrame(
        _curve(run["subject"], run["seed"], arm) for run in flat_runs(results) for arm in run["arms"]
    )
    curves["group"] = pd.Categorical(curves.group, GROUPS, ordered=True)
    numbers = curves.select_dtypes("number").columns
    groups = curves.groupby(["unit", "kind", "group"], observed=True, sort=False)[list(numbers)]
    means = groups.mean().reset_index().assign(seed=lambda rows: rows.unit)
    units = means.melt(["unit", "kind", "group", "seed"], list(numbers.drop("seed")), "quantity").dropna()
    return {"curves": curves, "units": units, "nearer": _nearer(curves[curves.kind == "networks"])}


def _curve(subject: str, seed: int, arm: Mapping[str, Any]) -> dict[str, Any]:
    """How straight the temperatures are, and what searches along their line lose."""
    network, likeliest = arm["name"] in TITLES, np.array(arm["temperatures"]["nll"])
    line, inverse = straight(likeliest), straight(1 / likeliest)
    by_ece = straight(np.array(arm["temperatures"].get("ece", [np.nan] * len(GAMMAS))))
    held_out = {by: found["full"] - found["line"] for by, found in arm["held_out"].items()}
    two = "two" if arm["num_classes"] == 2 else "more"
    return {
        "unit": f"{subject}, seed {seed}" if network else subject,
        "kind": "networks" if network else "files",
        "group": subject if network else f"files, {two} classes",
        "loss": TITLES.get(arm["name"]),
        "seed": seed,
        "T": likeliest[ZERO],
        **line,
        "off inverse": inverse["off"],
        "off less inverse": line["off"] - inverse["off"],
        "off by ECE less NLL": by_ece["off"] - line["off"],
        "gain": arm["nll"]["plain"] - arm["nll"]["range"],
        "lost": arm["nll"]["line"] - arm["nll"]["range"],
        "fine less coarse": arm["nll"]["line"] - arm["nll"]["coarse"],
        **{f"full less line, {by}": held_out.get(by, np.nan) for by in ("nll", "ece")},
        "temperatures": likeliest,
    }


def straight(values: np.ndarray) -> dict[str, float]:
    """R² of the line of least squares over the exponents, its slope as a share of the value at 0.

    ``off`` is the largest distance from it, as a share of the number itself.

    Example:
        >>> found = straight(2 + np.array(GAMMAS))
        >>> round(found["R²"], 6), round(found["slope"], 6), round(found["off"], 6)
        (1.0, 0.5, 0.0)
    """
    if np.isnan(values).any():
        return dict.fromkeys(("R²", "slope", "off"), np.nan)
    slope, start = np.polyfit(GAMMAS, values, 1)
    rest = values - (start + slope * np.array(GAMMAS))
    spread = ((values - values.mean()) ** 2).sum()
    found = {"R²": 1 - (rest**2).sum() / spread, "slope": slope / start, "off": np.abs(rest / values).max()}
    return {name: float(value) for name, value in found.items()}


def _nearer(networks: pd.DataFrame) -> pd.DataFrame:
    """How much nearer to 1 than cross-entropy's the temperatures of focal loss are, by seed."""
    far = networks.assign(far=np.log(networks["T"]).abs()).pivot(
        index=["group", "seed"], columns="loss", values="far"
    )
    usual = reaching(networks[networks.loss == CE], "group", "T", SPAN)
    found = (far[list(FOCAL)].mean(axis=1) - far[CE]).rename("value").reset_index()
    return found.assign(usual=found.group.map(usual).astype(bool))


def tables(found: Frames) -> Tables:
    units = found["units"]
    heads: Mapping[str, tuple[str, dict[str, Any]]] = {
        "R² of T": ("R²", {"digits": 4, "scale": 1}),
        "T off by %": ("off", {"digits": 1}),
        "1/T off by %": ("off inverse", {"digits": 1}),
        "γ gains": ("gain", {"digits": 5, "scale": 1}),
        "line loses": ("lost", {"digits": 5, "scale": 1}),
    }
    columns = [
        pivot(units[units.quantity == name], ["group"], [], "value", **form) for name, form in heads.values()
    ]
    whole = pd.concat(columns, axis=1).set_axis(list(heads), axis=1)
    return {"short": means_only(whole, "γ gains", "line loses")}


def figure(found: Frames) -> Figure:
    """T over its value at exponent 0 for files, and T of the networks on Fashion-MNIST by loss."""
    whole = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = whole.subplots(1, 2)
    curves = found["curves"]
    for group, colour in (("files, two classes", VERMILLION), ("files, more classes", BLUE)):
        for place, values in enumerate(curves[curves.group == group].temperatures):
            left.plot(
                GAMMAS, values / values[ZERO], color=colour, linewidth=0.8, label=None if place else group
            )
    left.set(xlabel="exponent γ of the calibrator", ylabel="best T, as a multiple of that at γ = 0")
    networks = curves[curves.group == "Fashion-MNIST"]
    for place, (loss, of) in enumerate(networks.groupby("loss")):
        right.plot(GAMMAS, np.mean(of.temperatures.tolist(), axis=0), color=series(place)[0], label=loss)
    right.axhline(1, color=GREY, linewidth=0.8)
    right.set(xlabel="exponent γ of the calibrator", ylabel="best T on Fashion-MNIST, mean")
    for ax in (left, right):
        ax.legend(fontsize="small")
    return whole
