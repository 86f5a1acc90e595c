"""What does a larger exponent of focal loss do on training images, on new ones, and after scaling?"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from calibrant.calibrators.fitting.grid import best_on_grid
from calibrant.calibrators.fitting.objectives import objective_value
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.searches import PAPER_GAMMAS, PAPER_TEMPERATURES
from calibrant.evaluation.fitting.templates import Labelled
from calibrant.predictions import load_predictions
from calibrant.reports.figures.drawing import GREY, series
from calibrant_lab.sweep.tasks.task import RunResult
from papers.analysis import Frames, Tables, beside, flat_runs, means_only, ordered, pivot, reaching
from papers.loss_rows import called

OBJECTIVES = ("nll", "adaptive_ece")
"""By what temperatures and exponents are chosen; the paper's ECE has bins of equal mass."""
ROWS_SIZE = 10000
"""The number of images of the rows of table 1."""
CE = "cross-entropy"
LOSSES = called(CE, *(f"focal, γ = {gamma}" for gamma in (1, 2, 3, 5, 7)), "FLSD-53", "AdaFocal")
CLOSEST = {1: 0.799353, 2: 0.664105, 3: 0.571885, 5: 0.453179}
"""The temperature closest to the map of an exponent, by `calibrant.theory` for ten classes."""
FOCAL = {f"focal, γ = {gamma}": closest for gamma, closest in CLOSEST.items()}
SPAN = (1.5, 3.0)
"""Cross-entropy's temperatures against which section 2 of the paper holds focal loss's."""
SEPARATED = 0.01
"""At or below it every training image is right, and a lower temperature is always more likely."""
LOWEST = 1e-4
"""The lowest temperature that a fit gives."""


def keep(result: RunResult) -> dict[str, Any]:
    """A run on training and new images; with 10,000 images also the fits of table 1."""
    found: dict[str, Any] = {"cpu_seconds": result.cpu_seconds, **sides(result)}
    if result.settings["data.train"] == ROWS_SIZE:
        found |= {"error": result.metrics["uncalibrated"]["error"], **fits_of(result)}
    return found


def fits_of(result: RunResult) -> dict[str, Any]:
    given = load_predictions(result.file("predictions.npz"))
    parts = (Labelled.of(part) for part in (given.calibration, given.test))
    return fits(*(Samples(part.scores.double(), part.labels, None) for part in parts))


def sides(result: RunResult) -> dict[str, Any]:
    """A run on its training images and on new ones; nothing if its training images were not measured."""
    if "train_side" not in result.more:
        return {}
    new = {name: result.metrics["uncalibrated"][name] for name in ("ece", "nll", "gap", "error")}
    new["temperature"] = result.parameters["temperature"]["temperature"]
    return {"train": result.more["train_side"], "new": new}


def fits(held_out: Samples, test: Samples) -> dict[str, Any]:
    """By objective: the temperature alone, and with an exponent, and the metrics of test samples with each.

    The exponents are the paper's nine, without 0, the temperatures 0.01, 0.02, ..., 5.00.
    """
    found: dict[str, Any] = {"before": _judged(test, 1.0, 0.0)}
    for objective in OBJECTIVES:
        for method, gammas in (("temperature", (0.0,)), ("focal", PAPER_GAMMAS)):
            best, _ = best_on_grid(held_out, objective, gammas, PAPER_TEMPERATURES)
            place = best.temperature, best.gamma
            found[f"{method}-{objective}"] = {"T": place[0], "gamma": place[1], **_judged(test, *place)}
    return found


def _judged(test: Samples, temperature: float, gamma: float) -> dict[str, float]:
    return {name: objective_value(test, name, temperature, gamma) for name in OBJECTIVES}


def frames(results: Mapping[str, Any]) -> Frames:
    """``scaled`` by method and criterion, ``gains``, ``sides`` of runs, ``relative`` numbers."""
    runs = flat_runs(results)
    scaled = pd.DataFrame(
        {**{name: run[name] for name in ("loss", "seed", "error")}, "method": method, "by": by, **run[key]}
        for run in runs
        if "before" in run
        for key in ("before", *(f"{method}-{by}" for by in OBJECTIVES for method in ("temperature", "focal")))
        for method, _, by in [key.partition("-")]
    )
    scaled = ordered(scaled, "loss", LOSSES)
    sides = _sides(runs)
    return {"scaled": scaled, "gains": _gains(scaled), "sides": sides, "relative": _relative(sides)}


def _gains(scaled: pd.DataFrame) -> pd.DataFrame:
    """By what share a temperature chosen by a criterion lowers it, against one chosen by the other; mean."""
    wide = scaled[scaled.method == "temperature"].pivot(index=["seed", "loss"], columns="by")
    shares = [1 - wide[name, name] / wide[name, other] for name, other in (OBJECTIVES, OBJECTIVES[::-1])]
    return pd.concat(
        share.groupby("seed").mean().rename("value").reset_index().assign(criterion=name)
        for share, name in zip(shares, OBJECTIVES, strict=True)
    )


def _sides(runs: list[dict[str, Any]]) -> pd.DataFrame:
    """A run on training and new images, its compensation, and whether it can be asked of training images."""
    found = pd.DataFrame(
        {
            "images": run["data.train"],
            "loss": run["loss"],
            "seed": run["seed"],
            **{f"{name}, {part}": value for part in ("train", "new") for name, value in run[part].items()},
        }
        for run in runs
        if "train" in run
    )
    found = ordered(found, "loss", LOSSES).sort_values(["images", "loss", "seed"])
    found = found[found.loss.isin([CE, *FOCAL])]
    lowest = found.groupby(["images", "loss"], observed=True)["temperature, train"].transform("min")
    logs = {part: np.log(found[f"temperature, {part}"].clip(lower=LOWEST)) for part in ("train", "new")}
    usual = reaching(found[found.loss == CE], "images", "temperature, new", SPAN)
    return found.assign(
        errs=lowest > SEPARATED,
        usual=found.images.map(usual),
        growth=found["gap, new"] - found["gap, train"],
        compensation=logs["new"] - logs["train"],
        distance=logs["new"].abs(),
    )


def _relative(sides: pd.DataFrame) -> pd.DataFrame:
    """By what share focal loss's numbers exceed cross-entropy's, temperatures that times the closest one."""
    focal = sides[sides.loss.isin(FOCAL)]
    theirs = beside(focal, sides[sides.loss == CE], ["images", "seed"])
    closest = focal.loss.map(FOCAL).astype(float)
    quantities = {
        "growth": focal.growth / theirs.growth - 1,
        "compensation": focal.compensation / theirs.compensation - 1,
        "T, training": focal["temperature, train"] / theirs["temperature, train"] / closest - 1,
        "T, new": focal["temperature, new"] / theirs["temperature, new"] / closest - 1,
    }
    key = focal[["images", "loss", "seed"]].assign(closest=closest, errs=focal.errs & theirs.errs)
    found = pd.concat(key.assign(quantity=name, value=value) for name, value in quantities.items())
    return found[found.errs | found.quantity.isin(["growth", "T, new"])]


def tables(found: Frames) -> Tables:
    scaled = found["scaled"]
    number = {"digits": 3, "scale": 1}
    heads = {
        "nll": {"temperature": "NLL, T", "focal": "NLL, focal T"},
        "adaptive_ece": {"temperature": "adaptive ECE %, T", "focal": "adaptive ECE %, focal T"},
    }
    after = scaled[scaled.method != "before"]
    short = pivot(scaled[scaled.method == "before"], ["loss"], [], "error").set_axis(["error %"], axis=1)
    for name, titles in heads.items():
        own = pivot(after[after.by == name], ["loss"], ["method"], name, **(number if name == "nll" else {}))
        short = short.join(own[list(titles)].set_axis(list(titles.values()), axis=1))
    return {
        "short": means_only(short, "adaptive ECE %, T"),
        "gains": pivot(found["gains"], ["criterion"], [], "value", digits=1),
        "T, new": pivot(found["sides"], ["images", "loss"], [], "temperature, new", **number),
    }


def figure(found: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 3.2), layout="constrained")
    left, right = whole.subplots(1, 2)
    gammas = {CE: 0, **dict(zip(FOCAL, CLOSEST, strict=True))}
    for place, (images, rows) in enumerate(found["sides"].groupby("images")):
        colour, mark, _ = series(place)
        means = rows.groupby("loss", observed=True).mean(numeric_only=True)
        x = [gammas[str(loss)] for loss in means.index]
        left.plot(x, 100 * means["gap, new"], marker=mark, markersize=4, color=colour)
        left.plot(x, 100 * means["gap, train"], linestyle="--", marker=mark, markersize=4, color=colour)
        right.plot(x, means["temperature, new"], marker=mark, markersize=4, color=colour, label=f"{images:,}")
    for ax in (left, right):
        ax.set(xlabel="γ in training")
    left.axhline(0, color=GREY, linewidth=0.8)
    right.plot([], [], "--", color=GREY, label="on training images")
    left.set(ylabel="confidence less accuracy, points")
    whole.legend(title="training images", fontsize="small", loc="outside right center")
    right.axhline(1, color=GREY, linewidth=0.8)
    right.set(ylabel="temperature on new images", yscale="log")
    right.set_yticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
    return whole
