"""Which loss is calibrated on a task of two classes?"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

from calibrant import metrics, theory
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import FocalTemperatureScaling, TemperatureScaling
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.predictions import Predictions, load_predictions
from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION
from calibrant_lab.sweep.tasks.task import RunResult
from calibrant_lab.training.neutral import (
    Convention,
    best_of_grid,
    fitted_under,
    probs_of,
    top_event,
    with_neutral,
)
from papers.analysis import Frames, Tables, flat_runs, mean_ci, means_only, pivot, relative
from papers.loss_rows import called, frames_of, gamma_3, printed, scheduled

STRUCK: Convention = "struck"
RENORMALISED: Convention = "renormalised"
LOSSES = {
    **called("cross-entropy", *(f"focal, γ = {gamma}" for gamma in (1, 2, 3)), "FLSD-53", "FLSD-532"),
    **scheduled(3, 7),
    "brier": "Brier",
    "mmce(penalty=1)": "MMCE",
    "mmce": "MMCE, λ = 2",
    **called("label smoothing", "dual focal", "AdaFocal", "FCL"),
}
PAPER = ("mukhoti-2020", "SST-Binary")
KEYS = ("loss", "seed", "convention")


def keep(result: RunResult) -> dict[str, Any]:
    predictions = load_predictions(result.file("predictions.npz"))
    accuracies = [row["calibration_accuracy"] for row in result.rows]
    return {
        "cpu_seconds": result.cpu_seconds,
        "train_accuracy": result.rows[-1]["train_accuracy"],
        "kept_epoch": accuracies.index(max(accuracies)) + 1,
        "temperatures": [row["calibration_temperature"] for row in result.rows],
        "conventions": {each: judged(predictions, each) for each in (STRUCK, RENORMALISED)},
    }


def judged(given: Predictions, convention: Convention) -> dict[str, Any]:
    """All metrics under a convention, before and after temperatures that held-out samples chose."""
    held_out, labels = given.calibration.labels, given.test.labels
    logits = {"calibration": given.calibration.scores.double(), "test": given.test.scores.double()}

    def at(temperature: float, part: str) -> Tensor:
        return probs_of(logits[part], convention, temperature=temperature)

    both = (TemperatureScaling(), FocalTemperatureScaling())
    plain, focal = (fitted_under(convention, each, logits["calibration"], held_out) for each in both)
    by_ece, by_adaptive_ece = (
        best_of_grid(lambda found, of=error: float(of(*top_event(at(found, "calibration"), held_out))))
        for error in (metrics.expected_calibration_error, metrics.adaptive_calibration_error)
    )
    temperature = fitted_number(plain.fit_result_, "temperature")
    wide = logits["test"] if convention == RENORMALISED else with_neutral(logits["test"])
    repaired = focal.predict_proba(wide).double()
    tried = {"before": 1.0, "by-ece": by_ece, "by-adaptive-ece": by_adaptive_ece, "temperature": temperature}
    stages = {stage: measured(at(each, "test"), labels) for stage, each in tried.items()}
    shown = repaired if convention == RENORMALISED else repaired[:, ::2]
    return {
        "stages": {**stages, "focal-temperature": measured(shown, labels)},
        "parameters": {
            "temperature": temperature,
            "ece_temperature": by_ece,
            "adaptive_ece_temperature": by_adaptive_ece,
            "focal_temperature": fitted_number(focal.fit_result_, "temperature"),
            "gamma": fitted_number(focal.fit_result_, "gamma"),
        },
    }


def measured(probs: Float[Tensor, "N 2"], labels: Int[Tensor, " N"]) -> dict[str, float]:
    """The metrics of the top class, whether or not probabilities sum to one.

    Example:
        >>> import torch
        >>> found = measured(torch.tensor([[0.5, 0.25], [0.2, 0.6]]), torch.tensor([0, 0]))
        >>> found["error"], round(found["ece"], 3), round(found["nll"], 3)
        (0.5, 0.55, 1.151)
    """
    confidences, right = top_event(probs.double(), labels)
    truth = probs.double().gather(1, labels[:, None]).squeeze(1)
    return {
        "error": 1 - float(right.double().mean()),
        "nll": float(-truth.clamp(min=1e-300).log().mean()),
        "ece": float(metrics.expected_calibration_error(confidences, right)),
        "adaptive_ece": float(metrics.adaptive_calibration_error(confidences, right)),
        "mce": float(metrics.maximum_calibration_error(confidences, right)),
        "smce": float(metrics.smooth_calibration_error(confidences, right)),
        "share_above_99": float((confidences >= 0.99).double().mean()),
    }


def frames(results: Mapping[str, Any]) -> Frames:
    """``judged`` by stage, ``errors`` by how T is chosen, ``fitted``, and what is derived from them."""
    runs = [
        {**run, **of, "convention": convention}
        for run in flat_runs(results)
        for convention, of in run["conventions"].items()
    ]
    found = frames_of(runs, KEYS, LOSSES)
    as_trained = found["judged"].query("stage == 'before'")
    struck = found["errors"].query("convention == 'struck' and stage == 'as trained'")
    means = found["judged"].groupby(["convention", "stage", "seed"], as_index=False).ece.mean()
    return {
        **found,
        "gamma_3": gamma_3(struck, ["metric"]),
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
    theirs = printed(*PAPER)
    ece = found["errors"].query("metric == 'ECE'")
    asked = (ece[ece.convention == name] for name in (STRUCK, RENORMALISED))
    struck, both = (pivot(of, ["loss"], ["stage"], "value") for of in asked)
    short = {
        "as trained": struck["as trained"],
        "paper": theirs["ECE pre"],
        "with T": struck["with T"],
        "paper, with T": theirs["ECE post"],
        "renormalised, as trained": both["as trained"],
    }
    ratios = pivot(found["ratios"], ["gamma"], ["when"], "ratio", scale=1)
    predicted = found["ratios"].groupby("gamma").predicted.first().map("{:.2f}".format)
    named = [name for name in struck.index if name in theirs.index]
    return {
        "short": means_only(pd.DataFrame(short).loc[named], "as trained"),
        "ratios": ratios.assign(predicted=predicted),
        "means": pivot(found["means"], ["convention"], ["stage"], "ece"),
    }


def figure(found: Frames) -> Figure:
    whole = Figure(figsize=(7.2, 3.6), layout="constrained")
    ax = whole.subplots()
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
    return whole
