"""Which loss is best calibrated, as trained and after temperature scaling?"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from calibrant import metrics
from calibrant._math.shapes import Float, Int
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.predictions import Predictions, load_predictions
from calibrant.reports.figures.drawing import BLUE, VERMILLION
from calibrant_lab.sweep.tasks.task import Outcome, RunResult, Settings
from calibrant_lab.sweep.tasks.training import Training
from calibrant_lab.training import Recipe
from papers.analysis import Frames, Tables, draw_means, flat_runs, means_only, pivot, relative
from papers.loss_rows import called, gamma_3, on_grid, repaired, scheduled

CALIBRATED = ("temperature", "focal-temperature")
"""The calibrators after which every class is measured."""
BY_ECE, BY_ADAPTIVE_ECE = (
    f"temperature(objective='{name}', search='grid')" for name in ("ece", "adaptive_ece")
)
"""How the papers choose a temperature; Mukhoti et al. the second way where they print adaptive ECE."""
METRICS = ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "share_above_99")
_KEYS = {"share_above_99": "high_confidence_share"}
"""What evaluations call a metric of the results file, if it is another name."""


class LossRun(Training):
    def covers(self, result: RunResult, settings: Settings) -> bool:
        return super().covers(result, settings) and "classes" in result.more

    def measured(self, predictions: Predictions, recipe: Recipe, calibrators: Sequence[str]) -> Outcome:
        outcome = super().measured(predictions, recipe, calibrators)
        _, probs = repaired(predictions, {name: name for name in CALIBRATED})
        classes = {stage: by_class(each, predictions.test.labels) for stage, each in probs.items()}
        return replace(outcome, more={**outcome.more, "classes": classes})


def by_class(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, list[float]]:
    """For each class: recall, excess of its mean probability over its share, classwise ECE, overconfidence.

    Recall and overconfidence (mean confidence less accuracy) are over the samples of the class, the others
    over all samples.

    Example:
        >>> found = by_class(torch.tensor([[0.9, 0.1], [0.6, 0.4]]).double(), torch.tensor([0, 1]))
        >>> found["recall"], [round(value, 2) for value in found["mean_excess"]]
        ([1.0, 0.0], [0.25, -0.25])
    """
    num_classes = probs.shape[1]
    confidence, predicted = probs.max(dim=1)
    right = (predicted == labels).double()
    counts = torch.bincount(labels, minlength=num_classes).double()

    def mean_within(values: Tensor) -> Tensor:
        return torch.zeros(num_classes, dtype=torch.float64).index_add_(0, labels, values) / counts

    errors = metrics.classwise_calibration_error(probs, labels, average="none")
    return {
        "recall": mean_within(right).tolist(),
        "mean_excess": (probs.mean(dim=0) - counts / len(labels)).tolist(),
        "classwise_ece": errors.tolist(),
        "overconfidence": mean_within(confidence - right).tolist(),
    }


def measured(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, float]:
    """The metrics of probabilities.

    Example:
        >>> found = measured(torch.tensor([[0.9, 0.1], [0.4, 0.6]]).double(), torch.tensor([0, 0]))
        >>> found["error"], round(found["ece"], 3), found["share_above_99"]
        (0.5, 0.35, 0.0)
    """
    sure = metrics.high_confidence(probs, labels, threshold=0.99)
    return {
        "error": 1 - float(metrics.accuracy(probs, labels)),
        "nll": float(metrics.negative_log_likelihood(probs, labels)),
        "ece": float(metrics.expected_calibration_error(probs, labels)),
        "adaptive_ece": float(metrics.adaptive_calibration_error(probs, labels)),
        "classwise_ece": float(metrics.classwise_calibration_error(probs, labels)),
        "smce": float(metrics.smooth_calibration_error(probs, labels)),
        "mce": float(metrics.maximum_calibration_error(probs, labels)),
        "share_above_99": float(sure.share),
        "accuracy_above_99": math.nan if sure.accuracy is None else float(sure.accuracy),
    }


def stages_of(result: RunResult) -> dict[str, Any] | None:
    """Metrics and fits of a run by stage; None if it was evaluated with fewer calibrators."""
    fitted = result.parameters
    if "classes" not in result.more or not {BY_ECE, *CALIBRATED} <= fitted.keys():
        return None
    stages = {"before": "uncalibrated", **{name: name for name in CALIBRATED}, "by-ece": BY_ECE}
    judged = {name: result.metrics[of] for name, of in stages.items()}
    given = load_predictions(result.file("predictions.npz"))
    fits, probs = repaired(given, {"by-adaptive-ece": BY_ADAPTIVE_ECE})
    by_adaptive = measured(probs["by-adaptive-ece"], given.test.labels)
    return {
        "train_accuracy": result.rows[-1]["train_accuracy"],
        "stages": {
            **{n: {key: of[_KEYS.get(key, key)] for key in METRICS} for n, of in judged.items()},
            "by-adaptive-ece": {name: by_adaptive[name] for name in METRICS},
        },
        "parameters": {
            "ece_temperature": fitted[BY_ECE]["temperature"],
            "adaptive_ece_temperature": fitted_number(fits["by-adaptive-ece"].fit_result_, "temperature"),
            "temperature": fitted["temperature"]["temperature"],
            "focal_temperature": fitted["focal-temperature"]["temperature"],
            "gamma": fitted["focal-temperature"]["gamma"],
        },
        "norms": {str(row["epoch"]): row["last_layer_norm"] for row in result.rows},
    }


LOSSES = {
    **called("cross-entropy", *(f"focal, γ = {gamma}" for gamma in (1, 2, 3)), "FLSD-53", "FCL"),
    **called("label smoothing", "margin smoothing", "Brier", "AdaFocal", "dual focal", "MMCE"),
    **called("MMCE, normalised once", "MDCA", "FLSD-532"),
    **scheduled(6, 15),
}
"""Losses as grids spell them; the last three are those of the study of sum and mean."""
SHORT = tuple(LOSSES.values())[:12]
IMAGES = {1.0: "balanced", 100.0: "long-tailed"}
STAGES = {"before": ("as trained", VERMILLION, "o"), "temperature": ("T by likelihood", BLUE, "s")}
"""Stages that the figure shows, and how."""
GROUPS = {"frequent": slice(0, 3), "middle": slice(3, 7), "rare": slice(7, 10)}
"""Places of the classes of long-tailed images, the most frequent first."""
DROP = 9
"""The last epoch at the first learning rate."""


def keep(result: RunResult) -> dict[str, Any] | None:
    found = stages_of(result)
    return found and {**found, "classes": result.more["classes"]}


def frames(results: Mapping[str, Any]) -> Frames:
    """``errors`` by stage and metric, ``fitted`` by run, ``classes`` by group, and differences of losses."""
    runs = flat_runs(results)
    found = of_runs(runs, key_of)
    classes = [
        {**key_of(run), "stage": stage, "group": group, "metric": metric, "value": fmean(values[part])}
        for run in runs
        for stage, metrics in run["classes"].items()
        for metric, values in metrics.items()
        for group, part in GROUPS.items()
    ]
    return {**found, "classes": pd.DataFrame(classes)}


def key_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """What tells a run from others: the images, and the loss with what is unusual about its training."""
    decay = "" if run["optimiser.weight_decay"] else ", no weight decay"
    weights = ", weighted" if run["training.class_weights"] == "balanced" else ""
    loss = LOSSES[run["loss"]] + decay + weights
    return {"images": IMAGES[run["data.imbalance"]], "loss": loss, "seed": run["seed"]}


def of_runs(
    runs: Sequence[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, pd.DataFrame]:
    errors = pd.DataFrame(
        {**key(run), "stage": stage, "metric": metric, "value": value}
        for run in runs
        for stage, metrics in run["stages"].items()
        for metric, value in metrics.items()
    )
    fitted = pd.DataFrame(
        {
            **key(run),
            "T": run["parameters"]["temperature"],
            "T by ECE": run["parameters"]["ece_temperature"],
            "first norm": fmean(norm for epoch, norm in run["norms"].items() if int(epoch) <= DROP),
            "last norm": run["norms"][max(run["norms"], key=int)],
        }
        for run in runs
    )
    by = [name for name in key(runs[0]) if name not in {"loss", "seed"}]
    fitted["T by ECE"] = fitted.groupby([*by, "loss"])["T by ECE"].transform(on_grid)
    plain = errors.query("stage == 'before'")
    return {
        "errors": errors,
        "fitted": fitted,
        "cost": relative(plain.query("metric == 'error'"), [*by, "seed"]),
        "exponents": gamma_3(plain, [*by, "metric"]),
    }


def tables(found: Frames) -> Tables:
    heads = {
        ("balanced", "before", "error"): "error %",
        ("balanced", "before", "ece"): "ECE %",
        ("balanced", "temperature", "ece"): "ECE % with T",
        ("long-tailed", "before", "ece"): "long-tailed: ECE %",
        ("long-tailed", "temperature", "ece"): "long-tailed: ECE % with T",
    }
    wide = pivot(found["errors"], ["loss"], ["images", "stage", "metric"], "value")
    short = wide.loc[list(SHORT), list(heads)].set_axis(list(heads.values()), axis=1)
    return {"short": means_only(short, "ECE %")}


def figure(found: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 3.6), layout="constrained")
    part = found["errors"].query("metric == 'ece' and loss in @SHORT")
    for ax, images in zip(whole.subplots(1, 2, sharey=True), IMAGES.values(), strict=True):
        for stage, look in STAGES.items():
            rows = part[(part.images == images) & (part.stage == stage)]
            draw_means(ax, 100 * rows.value, rows.loss, SHORT, *look)
        ax.set(title=f"{images} images", xlabel="ECE in %", xlim=(0, None))
    ax.legend(loc="lower right")
    return whole
