"""The trainings of the loss study, and what is read from them beyond what every training tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from calibrant import metrics
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import build
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.tasks.task import Outcome, Settings
from calibrant_lab.sweep.tasks.training import Training, recipe_of
from calibrant_lab.training import Recipe
from calibrant_lab.training.data import read_data
from papers.losses.numbers import STAGES


class LossRun(Training):
    """A training like any other, of which every class is measured too."""

    def covers(self, result: RunResult, settings: Settings) -> bool:
        """Whether the classes were measured."""
        return super().covers(result, settings) and "classes" in result.more

    def measured(self, predictions: Predictions, recipe: Recipe, calibrators: Sequence[str]) -> Outcome:
        """The numbers of every class, at each stage of the page."""
        outcome = super().measured(predictions, recipe, calibrators)
        return replace(outcome, more={**outcome.more, "classes": _classes(predictions)})


def _classes(predictions: Predictions) -> dict[str, Any]:
    held_out, test = Labelled.of(predictions.calibration), Labelled.of(predictions.test)
    found = {"before": by_class(test.scores.double().softmax(dim=1), test.labels)}
    for stage in STAGES[1:]:
        calibrator = fit_quietly(build(stage), held_out)
        found[stage] = by_class(calibrator.predict_proba(test.scores).double(), test.labels)
    return found


def training_counts(settings: Settings) -> list[int]:
    """Training samples of each class, by the settings of a run."""
    data = read_data(recipe_of(settings).data)
    return torch.bincount(data.train.labels, minlength=data.num_classes).tolist()


def by_class(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, list[float]]:
    """For each class: recall, excess of its mean probability over its share, classwise ECE, over-confidence.

    Recall and over-confidence (mean confidence less accuracy) are over the samples of the class, the others
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
