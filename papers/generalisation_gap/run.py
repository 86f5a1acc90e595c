"""Does focal loss make up for the overconfidence that comes with too little data?

Section 4.1 of Komisarenko and Kull (2024) argues that it does: it makes a model underconfident on its
training samples by a fixed factor, and the step to new samples multiplies the temperature by another.
Here linear models are fitted where the truth is known, so that nothing is estimated on test samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from calibrant.reports.figures.drawing import GREY, series
from papers.analysis import Frames, Tables, beside, flat_runs, mean_ci, means_only, ordered, pivot, reaching
from papers.generalisation_gap.measure import GAMMAS, QUANTITIES

CE = "cross-entropy"
LOSSES = {gamma: f"γ = {gamma:g}" if gamma else CE for gamma in GAMMAS}
SPAN = (2.0, 2.5)
"""Cross-entropy's temperatures from which the argument of the paper starts."""


def frames(results: Mapping[str, Any]) -> Frames:
    """``fits`` by sample and loss; ``exponents`` that need no temperature, by sample."""
    rows = pd.DataFrame(
        {
            "samples": run["num_samples"],
            "features": run["num_features"],
            "seed": run["seed"],
            "loss": gamma,
            **{name: run[name][place] for name in (*QUANTITIES, "limit_temperature")},
        }
        for run in flat_runs(results)
        for place, gamma in enumerate(GAMMAS)
    )
    rows = rows.assign(load=rows.features / rows.samples).sort_values(["load", "samples", "seed", "loss"])
    fits = ordered(rows.dropna(subset=["test_temperature"]), "loss", LOSSES)
    key = ["samples", "features", "seed"]
    proper = fits[fits.loss == CE]
    usual = reaching(proper, key[:2], "test_temperature", SPAN)
    fits = fits.assign(
        factor=fits.train_temperature * beside(fits, proper, key).test_temperature / fits.test_temperature,
        to_limit=fits.test_temperature / fits.limit_temperature,
        usual=[usual[cell] for cell in zip(fits.samples, fits.features, strict=True)],
    )
    whole = rows.groupby(["load", *key]).filter(lambda of: of.test_temperature.notna().all())
    crossings = whole.groupby(["load", *key]).test_temperature.apply(crossing)
    return {"fits": fits, "exponents": crossings.rename("value").reset_index()}


def crossing(temperatures: pd.Series) -> float:
    """The exponent at which the temperature is 1: log T is all but straight in log(1 + γ).

    Beyond the exponents that were tried, the nearest two are drawn out.

    Example:
        >>> crossing(pd.Series([2 / (1 + gamma) for gamma in GAMMAS]))
        1.0
    """
    pairs = list(itertools.pairwise(zip(np.log1p(GAMMAS), np.log(temperatures), strict=True)))
    (at, height), (end, low) = next((pair for pair in pairs if pair[1][1] <= 0), pairs[-1])
    return float(np.expm1(at + (end - at) * height / (height - low)))


def tables(found: Frames) -> Tables:
    rows, exponents = (found[name].query("samples == 800") for name in ("fits", "exponents"))
    number = {"digits": 3, "scale": 1}
    proper = pivot(rows[rows.loss == CE], ["features"], [], "test_temperature", **number)
    over = pivot(rows[rows.loss.isin([CE, "γ = 1", "γ = 3"])], ["features"], ["loss"], "test_overconfidence")
    exponent = pivot(exponents, ["features"], [], "value", **number).set_axis(["γ that needs no T"], axis=1)
    whole = proper.set_axis(["T of cross-entropy"], axis=1).join([over, exponent])
    return {"short": means_only(whole, "T of cross-entropy")}


def figure(found: Frames) -> Figure:
    """Overconfidence by loss, and the exponent that needs no temperature, against features per sample."""
    whole = Figure(figsize=(8.4, 3.4), layout="constrained")
    (left, right), look = whole.subplots(1, 2), {"markersize": 4, "capsize": 2}
    left.axhline(0, color=GREY, linewidth=0.8)
    shown = found["fits"].query("samples == 800")
    for place, (loss, of) in enumerate(shown.groupby("loss", observed=True)):
        colour, mark, _ = series(place)
        means = [(load, *mean_ci(100 * rows.test_overconfidence)) for load, rows in of.groupby("load")]
        left.errorbar(*zip(*means, strict=True), color=colour, marker=mark, label=loss, **look)
    left.set(xlabel="features per sample (800 samples)", ylabel="overconfidence on new samples, points")
    left.legend(fontsize="x-small", ncols=2, loc="lower right")
    for ax in (left, right):
        ax.set_xticks([0, 0.05, 0.1, 0.15, 0.2])
    every = found["exponents"].groupby(["load", "samples"]).value
    means = [(load, *mean_ci(values)) for (load, _), values in every]
    right.errorbar(*zip(*means, strict=True), color=series(0)[0], marker="o", linestyle="none", **look)
    right.set(xlabel="features per sample (every number of samples)", ylabel="γ that needs no temperature")
    return whole
