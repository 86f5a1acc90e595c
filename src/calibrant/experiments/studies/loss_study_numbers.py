"""What the runs of the loss study show, as numbers: per run, then mean and interval over the seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from calibrant import metrics
from calibrant._math.files import atomic_write
from calibrant.calibrators import Calibrator, TemperatureScaling, build
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.experiments.means import Mean, mean_of
from calibrant.experiments.studies.loss_study import Arm, Place, Setting, WeightNorms, places
from calibrant.predictions import load_predictions
from calibrant.training import load_recipe
from calibrant.training.data import read_data
from calibrant.training.run import RunFolder

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

FORMAT = 2
STAGES = ("before", "temperature", "focal-temperature")
METRICS = ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "share_above_99")
_CACHE = "study-numbers.json"

Numbers = Mapping[str, Any]
"""Of one run: ``stages``, ``parameters``, ``classes`` and ``norms``."""


@dataclass(frozen=True, kw_only=True)
class ArmNumbers:
    """The finished runs of one arm, by seed."""

    setting: Setting
    arm: Arm
    runs: Mapping[int, Numbers]

    def mean(self, pick: Callable[[Numbers], float]) -> Mean:
        """Something of each run, over the seeds."""
        return mean_of([pick(run) for run in self.runs.values()])

    def metric(self, stage: str, name: str) -> Mean:
        """A metric on the test split, before or after a calibrator."""
        return self.mean(lambda run: run["stages"][stage][name])

    def parameter(self, name: str) -> Mean:
        """A fitted parameter: ``temperature``, ``ece_temperature``, ``focal_temperature`` or ``gamma``."""
        return self.mean(lambda run: run["parameters"][name])


def difference(first: ArmNumbers, second: ArmNumbers, pick: Callable[[Numbers], float]) -> Mean | None:
    """Mean of first minus second over the seeds that both have; None without any."""
    shared = [seed for seed in first.runs if seed in second.runs]
    if not shared:
        return None
    return mean_of([pick(first.runs[seed]) - pick(second.runs[seed]) for seed in shared])


def collect(store: Path, setting: Setting, seeds: Sequence[int]) -> list[ArmNumbers]:
    """The finished runs of every arm of a setting; an arm without any is left out."""
    found: dict[str, dict[int, Numbers]] = {}
    for place in places(store, settings=[setting], seeds=seeds):
        if place.finished:
            found.setdefault(place.arm.key, {})[place.seed] = numbers_of(place)
    return [
        ArmNumbers(setting=setting, arm=arm, runs=found[arm.key]) for arm in setting.arms if arm.key in found
    ]


def numbers_of(place: Place) -> Numbers:
    """What a finished run shows; computed once, then read from a file in its directory."""
    cache = place.folder / _CACHE
    if cache.is_file():
        content = json.loads(cache.read_text(encoding="utf-8"))
        if content.get("format") == FORMAT:
            return content
    content = {"format": FORMAT, **_measured(place.folder)}
    with atomic_write(cache) as temporary:
        temporary.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
    return content


def training_counts(setting: Setting) -> list[int]:
    """Training samples of each class."""
    data = read_data(setting.base.data)
    return torch.bincount(data.train.labels, minlength=data.num_classes).tolist()


def _measured(folder: Path) -> dict[str, Any]:
    run = RunFolder(folder)  # not its evaluation, whose schema may have changed since
    predictions, recipe = load_predictions(run.predictions), load_recipe(run.recipe)
    last = json.loads(run.metrics.read_text(encoding="utf-8").splitlines()[-1])
    held_out, test = Labelled.of(predictions.calibration), Labelled.of(predictions.test)
    papers = fit_quietly(TemperatureScaling(objective="ece", search="grid"), held_out)
    parameters = {"ece_temperature": _parameter(papers, "temperature")}
    stages: dict[str, Any] = {}
    classes: dict[str, Any] = {}
    for stage in STAGES:
        probs = test.scores.double().softmax(dim=1)
        if stage != "before":
            calibrator = fit_quietly(build(stage), held_out)
            probs = calibrator.predict_proba(test.scores).double()
            if stage == "temperature":
                parameters["temperature"] = _parameter(calibrator, "temperature")
            else:
                parameters["focal_temperature"] = _parameter(calibrator, "temperature")
                parameters["gamma"] = _parameter(calibrator, "gamma")
        stages[stage] = judged(probs, test.labels)
        classes[stage] = by_class(probs, test.labels)
    return {
        "seed": recipe.seed,
        "loss": recipe.loss,
        "versions": json.loads(run.environment.read_text(encoding="utf-8"))["sessions"][-1]["versions"],
        "train_accuracy": last["train_accuracy"],
        "stages": stages,
        "parameters": parameters,
        "classes": classes,
        "norms": WeightNorms.read(folder),
    }


def _parameter(calibrator: Calibrator, name: str) -> float:
    """A fitted parameter that is one number."""
    value = calibrator.fit_result_.parameters[name]
    if not isinstance(value, float):
        raise TypeError(f"`{name}` must be one number; got {value}.")
    return value


def judged(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, float]:
    """The metrics of the study, as fractions and nats.

    Example:
        >>> found = judged(torch.tensor([[0.995, 0.005], [0.25, 0.75]]).double(), torch.tensor([0, 0]))
        >>> found["error"], found["share_above_99"]
        (0.5, 0.5)
    """
    confident = metrics.high_confidence(probs, labels, threshold=0.99)
    return {
        "error": float(metrics.error_rate(probs, labels)),
        "nll": float(metrics.negative_log_likelihood(probs, labels)),
        "ece": float(metrics.expected_calibration_error(probs, labels)),
        "adaptive_ece": float(metrics.adaptive_calibration_error(probs, labels)),
        "classwise_ece": float(metrics.classwise_calibration_error(probs, labels)),
        "smce": float(metrics.smooth_calibration_error(probs, labels)),
        "share_above_99": float(confident.share),
    }


def by_class(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, list[float]]:
    """Of each class: recall, excess of its mean probability over its share, classwise ECE, over-confidence.

    Recall and over-confidence (mean confidence less accuracy) are over the samples that are of the class, the
    others over all samples.

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
