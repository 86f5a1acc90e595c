"""Trainings that are followed epoch by epoch, and measured on their training samples when they have ended."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from torch import Tensor

from calibrant import metrics
from calibrant._math.errors import without_warnings
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import TemperatureScaling
from calibrant_lab.data import Dataset
from calibrant_lab.sweep.tasks.task import Outcome, RunResult, Settings, Tell
from calibrant_lab.sweep.tasks.training import Training, recipe_of
from calibrant_lab.training.data import preparation, read_data
from calibrant_lab.training.recipe import DataSection
from calibrant_lab.training.run import load_run
from papers.shift.measure import logits_of

QUANTILES = (0.1, 0.5, 0.9)


class FollowedRun(Training):
    """A training like any other, of which more is told: its training samples, and lengths of gradients."""

    def covers(self, result: RunResult, settings: Settings) -> bool:
        return super().covers(result, settings) and "train_side" in result.more

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        outcome = super().run(settings, folder, tell)
        run = load_run(folder)
        recipe = recipe_of(settings)
        dataset = _data(recipe.data.model_dump_json())
        model = run.model().to(self.device(settings))
        logits = logits_of(model, preparation(recipe.data, dataset), dataset.train.inputs)
        norms = {str(epoch): found["gradient_norms"] for epoch, found in run.snapshots.items()}
        more = {
            **outcome.more,
            "train_side": train_side(logits, dataset.train.labels),
            "gradient_norms": {epoch: shape_of(each) for epoch, each in norms.items()},
        }
        return replace(outcome, more=more)


@lru_cache(maxsize=2)
def _data(section: str) -> Dataset:
    return read_data(DataSection.model_validate_json(section))


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
        "temperature": float(str(fit.parameters["temperature"])),
    }


def shape_of(norms: ndarray[Any, Any]) -> dict[str, float]:
    """Mean and quantiles of the lengths of the samples' gradients.

    Example:
        >>> shape_of(np.array([0.0, 1.0, 2.0]))["mean"]
        1.0
    """
    found = {f"{round(100 * level)} %": float(np.quantile(norms, level)) for level in QUANTILES}
    return {"mean": float(norms.mean()), **found}
