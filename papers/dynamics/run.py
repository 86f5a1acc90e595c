"""Why does cross-entropy grow over-confident during a training, and what does focal loss do otherwise?"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy import ndarray
from torch import Tensor

from calibrant import metrics
from calibrant._math.errors import without_warnings
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import TemperatureScaling
from calibrant.calibrators.fitting.results import fitted_number
from calibrant_lab.reports.dynamics import NORM, draw_courses
from calibrant_lab.sweep.tasks.task import Outcome, RunResult, Settings, Tell
from calibrant_lab.sweep.tasks.training import Training, recipe_of
from calibrant_lab.training.data import preparation
from calibrant_lab.training.run import load_run
from papers.analysis import Frames, Tables, beside, flat_runs, means_only, ordered, pivot, relative
from papers.loss_rows import called
from papers.shift.run import data_of_section, logits_of

QUANTILES = (0.1, 0.5, 0.9)


class FollowedRun(Training):
    """A training like any other, of which more is told: its training samples, and lengths of gradients."""

    def covers(self, result: RunResult, settings: Settings) -> bool:
        return super().covers(result, settings) and "train_side" in result.more

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        outcome = super().run(settings, folder, tell)
        run = load_run(folder)
        recipe = recipe_of(settings)
        dataset = data_of_section(recipe.data.model_dump_json())
        model = run.model().to(self.device(settings))
        logits = logits_of(model, preparation(recipe.data, dataset), dataset.train.inputs)
        norms = {str(epoch): found["gradient_norms"] for epoch, found in run.snapshots.items()}
        more = {
            **outcome.more,
            "train_side": train_side(logits, dataset.train.labels),
            "gradient_norms": {epoch: shape_of(each) for epoch, each in norms.items()},
        }
        return replace(outcome, more=more)


def train_side(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, float]:
    """Accuracy, ECE, NLL, excess confidence and likeliest temperature.

    Where every sample is right, no temperature is too low for the likelihood: it is then the lowest allowed.

    Example:
        >>> import torch
        >>> found = train_side(torch.tensor([[2.0, 0.0]] * 5), torch.tensor([0, 0, 0, 0, 1]))
        >>> round(found["accuracy"], 3), round(found["temperature"], 3)  # 2 / log 4
        (0.8, 1.443)
    """
    probs = logits.double().softmax(dim=1)
    accuracy = float(metrics.accuracy(probs, labels))
    with without_warnings():
        fit = TemperatureScaling().fit(logits, labels).fit_result_
    return {
        "accuracy": accuracy,
        "ece": float(metrics.expected_calibration_error(probs, labels)),
        "nll": float(metrics.negative_log_likelihood(probs, labels)),
        "gap": float(probs.amax(dim=1).mean()) - accuracy,
        "temperature": fitted_number(fit, "temperature"),
    }


def shape_of(norms: ndarray[Any, Any]) -> dict[str, float]:
    """Mean and quantiles of the lengths of the samples' gradients."""
    found = {f"{round(100 * level)} %": float(np.quantile(norms, level)) for level in QUANTILES}
    return {"mean": float(norms.mean()), **found}


CE = "cross-entropy"
LOSSES = called(CE, *(f"focal, γ = {gamma}" for gamma in (1, 2, 3)), "FLSD-53")
DROP, SECOND, LAST = 9, 15, 21
"""The last epochs at each learning rate."""
START = 12
"""Three epochs after the drop its own effect is over, and what follows is claimed."""
HELD_OUT = (
    *("error", "ece", "nll", "nll_correct", "nll_incorrect", "entropy_correct", "entropy_incorrect"),
    *("p_true_correct", "p_true_incorrect"),
)
TRAINING = ("error", "nll", "nll_correct", "nll_incorrect")
KEY = ["way", "loss", "seed"]
BEFORE, END = "norm before the drop", "norm in the end"


def keep(result: RunResult) -> dict[str, Any] | None:
    """The course of a run's numbers; None for runs of earlier versions, which recorded less per epoch."""
    rows = result.rows
    if f"calibration_{HELD_OUT[0]}" not in rows[-1] or "gradient_norms" not in result.more:
        return None
    followed = {str(row["epoch"]): row["dynamics"]["train"] for row in rows if "dynamics" in row}
    return {
        "cpu_seconds": result.cpu_seconds,
        "held_out": {name: [row[f"calibration_{name}"] for row in rows] for name in HELD_OUT},
        "norms": [row["last_layer_norm"] for row in rows],
        "train": {epoch: {name: each[name] for name in TRAINING} for epoch, each in followed.items()},
        "gradient_norms": {epoch: each["mean"] for epoch, each in result.more["gradient_norms"].items()},
    }


def frames(results: Mapping[str, Any]) -> Frames:
    """``courses`` by epoch, what is ``found`` of each, errors ``relative`` to cross-entropy's, ``norms``."""
    courses = [
        {"way": run["reduction"], "loss": run["loss"], "seed": run["seed"]}
        | {"name": name, "epoch": epoch, "value": value}
        for run in flat_runs(results)
        for name, course in _courses(run).items()
        for epoch, value in course.items()
    ]
    tidy = ordered(pd.DataFrame(courses), "loss", LOSSES)
    groups = tidy.groupby(["name", "epoch"], observed=True)
    wide = {place: of.set_index(KEY).value for place, of in groups}
    of_runs = {what: values.rename("value").reset_index() for what, values in _found(wide).items()}
    found = pd.concat(frame.assign(what=what) for what, frame in of_runs.items())
    norms = found[found.what.isin([BEFORE, END])].reset_index()
    plain = beside(norms, norms[norms.loss == CE], ["way", "seed", "what"]).value
    sides = norms.what.map({BEFORE: 1, END: -1})
    return {
        "courses": tidy,
        "found": found,
        "relative": relative(found[found.what == "error"], ["way", "seed"]),
        "norms": norms.assign(value=sides * (norms.value - plain)),
    }


def _courses(run: Mapping[str, Any]) -> dict[str, dict[int, float]]:
    """Numbers by epoch, those of training images and of gradients at the epochs that have them."""
    held_out = {**run["held_out"], NORM: run["norms"]}
    found = {name: dict(enumerate(values, 1)) for name, values in held_out.items()}
    for name in ("nll_correct", "nll_incorrect"):
        found[f"training {name}"] = {int(epoch): each[name] for epoch, each in run["train"].items()}
    found["gradients"] = {int(epoch): length for epoch, length in run["gradient_norms"].items()}
    return found


def _found(at: Mapping[tuple[str, int], pd.Series]) -> dict[str, pd.Series]:
    """What the courses show of each run, by what it is called in claims."""

    def mean(name: str, epochs: range) -> pd.Series:
        return sum(at[name, epoch] for epoch in epochs) / len(epochs)

    wrong, first, late = "entropy_incorrect", range(1, DROP + 1), range(DROP + 1, LAST + 1)
    return {
        **{f"{name}, rise": at[name, LAST] - at[name, START] for name in HELD_OUT},
        **{
            f"{name}, change": at[name, LAST] - at[name, 1]
            for name in ("entropy_correct", wrong, "training nll_correct", "training nll_incorrect")
        },
        **{name: at[name, LAST] for name in HELD_OUT},
        "entropy before the drop": mean(wrong, first),
        "entropy after the drop": mean(wrong, late),
        BEFORE: mean(NORM, first),
        END: at[NORM, LAST],
        "log gradients at first": np.log(at["gradients", 1]),
        "gradients left": at["gradients", SECOND] / at["gradients", 1],
        "gradients late": at["gradients", SECOND],
    }


def tables(of: Frames) -> Tables:
    found, nats = ordered(of["found"], "way", {"sum": "sum", "mean": "mean"}), {"digits": 3, "scale": 1}
    parts = (
        ({"nll_incorrect, rise": "NLL, wrong: rise"}, nats),
        ({"ece, rise": "ECE: rise", "ece": "ECE"}, {}),
        ({END: END}, nats),
    )
    columns = []
    for names, form in parts:
        columns.append(pivot(ordered(found, "what", names), ["way", "loss"], ["what"], "value", **form))
    return {"short": means_only(pd.concat(columns, axis=1), "NLL, wrong: rise")}


def figure(of: Frames) -> Figure:
    courses = of["courses"].query("way == 'sum' and loss != 'FLSD-53'")
    return draw_courses(courses.rename(columns={"loss": "arm"}), drops=(DROP, SECOND))
