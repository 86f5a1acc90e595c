"""The trainings of the loss study, and what is read from them beyond what every training tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from calibrant import metrics
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import build
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.experiments.matching import matches
from calibrant.experiments.result import RunResult
from calibrant.experiments.studies.losses.numbers import METRICS, STAGES
from calibrant.experiments.studies.losses.settings import Setting
from calibrant.experiments.tasks.task import Outcome, Settings
from calibrant.experiments.tasks.training import Training
from calibrant.predictions import Predictions
from calibrant.training import Recipe
from calibrant.training.data import read_data

PAPERS = "temperature(objective='ece', search='grid')"
"""How the papers choose a temperature."""
_KEYS = {"share_above_99": "high_confidence_share"}
"""What evaluations call a metric of the results file, where it is another name."""


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


def runs_of_setting(
    results: Iterable[RunResult], setting: Setting
) -> dict[str, dict[int, Mapping[str, Any]]]:
    """What the runs of a setting show, by arm and seed; an arm without any is left out."""
    mine = [each for each in results if matches(each.settings, setting.where)]
    found = {
        arm.key: {each.settings["seed"]: _shown(each) for each in mine if matches(each.settings, arm.where)}
        for arm in setting.arms
    }
    return {key: dict(sorted(runs.items())) for key, runs in found.items() if runs}


def _shown(result: RunResult) -> dict[str, Any]:
    """A run as the results file has it."""
    of_stage = dict(zip(STAGES, ("uncalibrated", *STAGES[1:]), strict=True))
    fitted = result.parameters
    return {
        "seed": result.settings["seed"],
        "loss": result.settings["loss"],
        "versions": {name: result.environment[name] for name in ("calibrant", "python", "torch")},
        "train_accuracy": result.rows[-1]["train_accuracy"],
        "stages": {
            name: {key: result.metrics[stage][_KEYS.get(key, key)] for key in METRICS}
            for name, stage in of_stage.items()
        },
        "parameters": {
            "ece_temperature": fitted[PAPERS]["temperature"],
            "temperature": fitted["temperature"]["temperature"],
            "focal_temperature": fitted["focal-temperature"]["temperature"],
            "gamma": fitted["focal-temperature"]["gamma"],
        },
        "classes": result.more["classes"],
        "norms": {str(row["epoch"]): row["last_layer_norm"] for row in result.rows},
    }


def training_counts(recipe: Recipe) -> list[int]:
    """Training samples of each class."""
    data = read_data(recipe.data)
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
