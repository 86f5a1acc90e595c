"""Training by a recipe as a task: train, and measure the final network without intervals."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant import losses
from calibrant._math.errors import InputError
from calibrant._math.files import file_or_data
from calibrant._math.text_form import canonical_call, named, parse_call
from calibrant.calibrators import build as build_calibrator
from calibrant.evaluation.arguments import as_judged, no_labels
from calibrant.evaluation.fitting import templates
from calibrant.evaluation.fitting.templates import DEFAULTS, UNCALIBRATED, FittedCalibrator
from calibrant.evaluation.quantities import optional_keys
from calibrant.evaluation.source import samples_after
from calibrant.metrics import auroc, brier_score, expected_calibration_error, maximum_calibration_error
from calibrant.predictions import Predictions, load_predictions
from calibrant.predictions.to_event import to_repair
from calibrant_lab.data.fetch import cache_folder
from calibrant_lab.data.lazy import feed
from calibrant_lab.elsewhere import imported
from calibrant_lab.models.roster import MODELS
from calibrant_lab.reports.curvature import numbers_of, read_curvature
from calibrant_lab.sweep.tasks import task
from calibrant_lab.sweep.tasks.task import Fingerprints, Outcome, RunResult, Settings, Tell
from calibrant_lab.training import Listener, Recipe, train
from calibrant_lab.training.data import TrainingData, read_training_data
from calibrant_lab.training.recipe import NUMBERS, settings_at
from calibrant_lab.training.recipe_files import nested
from calibrant_lab.training.run import RunFolder, json_of

LATER: Mapping[str, object] = {}
"""Settings that recipes have gained since the present version of the numbers, with what changes none of them.

A run whose recipe has that value is known by the same name as before there was the setting. Where ``NUMBERS``
is raised, they may go from here.
"""

_COSMETIC = (
    "data.memory",
    "evaluation.bootstrap",
    "evaluation.batch_size",
    "evaluation.calibrators",
    "evaluation.heat_maps",
)
"""Settings that decide no number of the trained network, beside those of the hardware.

A run that lacks a calibrator is measured again, from its predictions.
"""
_ENVIRONMENT = ("platform", "instructions", "processor", "device", "processes", "threads")
_CALLS = ("model", "loss")  # settings written as `name(setting=value)`


class Training(task.Task):
    """Train by a recipe; the numbers evaluate each calibrator on the test split."""

    name: ClassVar[str] = "training"
    version: ClassVar[int] = NUMBERS
    costly: ClassVar[tuple[str, ...]] = ("model", "data.name", "data.train", "training.epochs")
    files: ClassVar[Mapping[str, str]] = {
        "recipe.toml": "every setting; `calibrant train recipe.toml` repeats the run",
        "environment.json": "when, where and by which versions it was trained",
        "predictions.npz": "logits and labels, calibration and test split, for `calibrant evaluate`",
        "out_of_distribution.npz": "logits of the out-of-distribution samples, where the recipe names some",
        "dynamics/": "recordings of chosen epochs, where the recipe asks for them",
        "conventions.json": "errors by both conventions, of a network that learns a neutral class",
        "cost.json": "time of a step, where the recipe adds to it",
        "curvature.json": "eigenvalue and trace of the Hessian, if the recipe requests them",
        "heat-maps/": "Grad-CAM maps of test images, if the recipe requests some",
    }

    def complete(self, settings: Settings) -> Settings:
        recipe = Recipe.read(nested(settings), source="grid")
        _check(recipe.loss, recipe.model, recipe.evaluation.calibrators)
        return settings_at(recipe, "full")

    def deciding(self, settings: Settings) -> Settings:
        """Return all settings but hardware, a small budget's replacements, and resample counts."""
        recipe = recipe_of(settings)
        without = {"hardware", "full", *([] if recipe.record.dynamics else ["record"])}
        kept = {
            key: canonical_call(value) if key in _CALLS else value
            for key, value in settings.items()
            if key.partition(".")[0] not in without and key not in _COSMETIC
            if key not in LATER or value != LATER[key]
        }
        processes = recipe.hardware.devices * recipe.hardware.nodes
        return kept if processes == 1 else {**kept, "processes": processes}  # each sees its share of a batch

    def unrecorded(self, settings: Settings) -> Settings:
        return {**settings, "record.dynamics": False}

    def inputs(self, settings: Settings, fingerprints: Fingerprints) -> Mapping[str, str]:
        recipe = recipe_of(settings)
        key = [_data_key(recipe), _sources(recipe), NUMBERS, version("torch"), version("numpy")]
        found: dict[str, str] = json.loads(
            fingerprints.get(key, lambda: json.dumps(_digests(read_training_data(recipe))))
        )
        weights = file_or_data(recipe.initial.weights) if recipe.initial.weights else None
        if weights is not None:
            found["initial weights"] = task.digest_of(weights)
        return found

    def covers(self, result: RunResult, settings: Settings) -> bool:
        """Return True if all calibrators were tried, with current measures, on every label."""
        known = {*result.metrics, *result.more.get("calibrators_failed", {})}
        asked = tuple(settings["evaluation.calibrators"]) or DEFAULTS
        whole = "labels" in result.more or not settings["loss"].startswith("multilabel")
        return super().covers(result, settings) and known >= set(asked) and whole

    def measure_again(self, settings: Settings, result: RunResult) -> Outcome:
        recipe = recipe_of(settings)
        asked = recipe.evaluation.calibrators or DEFAULTS
        names = [name for name in dict.fromkeys([*asked, *result.metrics]) if name != UNCALIBRATED]
        return self.measured(load_predictions(result.file("predictions.npz")), recipe, names)

    def measured(self, predictions: Predictions, recipe: Recipe, calibrators: Sequence[str]) -> Outcome:
        """Return all test quantities, before and after each calibrator, without intervals."""
        return point_values(predictions, calibrators, recipe.evaluation.num_bins)

    def threads(self, settings: Settings) -> int:
        hardware = recipe_of(settings).hardware
        return max(1, hardware.threads) * hardware.devices

    def needs_gpu(self, settings: Settings) -> bool:
        return recipe_of(settings).hardware.accelerator != "cpu" and torch.cuda.is_available()

    def lacking(self, settings: Settings) -> str:
        wanted = recipe_of(settings).hardware.accelerator
        usable = wanted not in {"gpu", "cuda"} or torch.cuda.is_available()
        if usable or (wanted == "gpu" and torch.backends.mps.is_available()):
            return ""
        return f"there is no GPU for hardware.accelerator = {wanted!r}; auto takes one where there is one."

    def device(self, settings: Settings) -> str:
        return "cuda" if self.needs_gpu(settings) else "cpu"

    def gpus(self, settings: Settings) -> int:
        hardware = recipe_of(settings).hardware
        return hardware.devices if hardware.accelerator in {"auto", "gpu", "cuda"} else 0

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        """Train or resume in the folder; the caller deletes the checkpoint."""
        recipe = recipe_of(settings)
        data = data_of(recipe)
        listener = _Telling(tell)
        run = train(recipe, folder, listener=listener, data=data, report=False, command="calibrant sweep")
        tell(1.0, "evaluating")
        predictions = load_predictions(run.folder.predictions)
        found = self.measured(predictions, recipe, recipe.evaluation.calibrators or DEFAULTS)
        more = {**_facts(recipe, run.folder, data, predictions), **found.more}
        return replace(found, rows=run.rows, more=more)


def recipe_of(settings: Settings) -> Recipe:
    return Recipe.read(nested(settings))


@lru_cache(maxsize=1024)
def _check(loss: str, model: str, calibrators: tuple[str, ...]) -> None:
    if ":" not in loss.partition("(")[0]:
        losses.build(loss)
    if ":" not in model.partition("(")[0]:
        named(parse_call(model)[0], MODELS, "model")
    for each in calibrators:
        build_calibrator(each)


def data_of(recipe: Recipe) -> TrainingData:
    return _data(_data_key(recipe), _sources(recipe))


def _data_key(recipe: Recipe) -> str:
    return json.dumps([recipe.data.model_dump(mode="json"), recipe.foreign.name])


def _sources(recipe: Recipe) -> str:
    named_by_recipe = (recipe.data.name, recipe.data.vectors, recipe.foreign.name, recipe.initial.weights)
    names = [name for name in named_by_recipe if name]
    return _state(tuple(names), os.environ.get("CALIBRANT_DATA"), int(time.monotonic() // 60))


@lru_cache(maxsize=16)
def _state(names: tuple[str, ...], root: str | None, _minute: int) -> str:
    folders = [*([Path(root)] if root else []), cache_folder()]
    heads = [name.partition("(")[0].strip() for name in names]
    paths = [*(Path(name) for name in names), *(folder / head for folder in folders for head in heads)]
    return json.dumps(task.state_of(path for path in paths if path.exists()))


@lru_cache(maxsize=2)
def _data(key: str, _sources: str) -> TrainingData:
    """Return the data in memory, read again after their files change."""
    section, foreign = json.loads(key)
    recipe = Recipe.read({"data": section, "foreign": {"name": foreign}})
    return read_training_data(recipe)


def _digests(data: TrainingData) -> dict[str, str]:
    found = {"data": data.sha256}
    if data.foreign is not None:
        digest = hashlib.sha256()
        feed(digest, data.foreign.inputs)
        found["out_of_distribution"] = digest.hexdigest()
    return found


class _Telling(Listener):
    def __init__(self, tell: Tell) -> None:
        self._tell, self._epochs = tell, 1

    def start(self, *, epoch: int, epochs: int, facts: Mapping[str, str]) -> None:
        self._epochs = epochs
        self._tell(epoch / epochs, f"epoch {epoch}/{epochs}")

    def batch(self, *, epoch: int, fraction: float, loss: float) -> None:
        words = f"epoch {epoch}/{self._epochs}  loss {loss:.4f}"
        self._tell((epoch - 1 + fraction) / self._epochs, words)

    def epoch(self, row: Mapping[str, Any]) -> None:
        self.batch(epoch=row["epoch"], fraction=1.0, loss=row["train_loss"])


def _facts(recipe: Recipe, folder: RunFolder, data: TrainingData, predictions: Predictions) -> dict[str, Any]:
    session = folder.sessions[-1]
    more: dict[str, Any] = {
        "inputs": _digests(data),
        "environment": {**session["versions"], **{name: session.get(name) for name in _ENVIRONMENT}},
        "counts": {name: len(part) for name, part in data.dataset.parts.items()},
    }
    found = {"cost": json_of(folder.cost), "conventions": json_of(folder.conventions)}
    more |= {name: each for name, each in found.items() if each is not None}
    if measured := read_curvature(folder.curvature):
        more["curvature"] = {"own": numbers_of(measured[0]), "cross_entropy": numbers_of(measured[-1])}
    if folder.foreign_predictions.is_file():
        from calibrant_lab.training.run_report import detection_of

        foreign = load_predictions(folder.foreign_predictions)
        more["out_of_distribution"] = detection_of(predictions, foreign, name=recipe.foreign.name)
    return more


def point_values(predictions: Predictions, calibrators: Sequence[str], num_bins: int) -> Outcome:
    """Return all test quantities by stage: uncalibrated, and after each calibrator.

    With several labels per sample, ``more["labels"]`` has some quantities by stage and label; None for a
    label of all samples or of none.
    """
    test, held_out = as_judged(predictions.test), to_repair(predictions.calibration)
    if test.labels is None:
        raise no_labels(predictions)
    arms: list[FittedCalibrator | None] = [None]
    failures: dict[str, str] = {}
    for template in templates.templates(list(calibrators), test.kind):
        try:
            fitted = template.fit(templates.Labelled.of(held_out))
            arms.append(FittedCalibrator(template, fitted, None))
        except templates.FIT_FAILURES as error:
            failures[template.name] = str(error)
    metrics: dict[str, Mapping[str, float | None]] = {}
    undefined: dict[str, Mapping[str, str]] = {}
    labels: dict[str, Any] = {}
    for arm in arms:
        stage = UNCALIBRATED if arm is None else arm.name
        samples = samples_after(test, num_bins, arm)
        reduced = samples.reduced((), optional_keys())
        found = {each.key: reduced.values.get(each.key) for each in reduced.quantities}
        values = {key: _finite(value) for key, value in found.items()}
        accuracy = values.get("accuracy")
        metrics[stage] = {**values, "error": None if accuracy is None else 1 - accuracy}
        if missing := [key for key, value in values.items() if value is None]:
            undefined[stage] = {key: reduced.reasons.get(key, f"it is {found[key]}") for key in missing}
        if test.kind == "multilabel":
            probs = test.probs if samples.calibrate is None else samples.calibrate(test.scores)
            names = test.class_names or [str(place) for place in range(probs.shape[1])]
            labels[stage] = _of_labels(probs, test.labels, names, num_bins)
    parameters = {arm.name: dict(arm.calibrator.fit_result_.parameters) for arm in arms if arm is not None}
    more = {name: found for name, found in (("calibrators_failed", failures), ("labels", labels)) if found}
    return Outcome(metrics=metrics, undefined=undefined, parameters=parameters, more=more)


def _of_labels(
    probs: Tensor, labels: Tensor, names: Sequence[str], num_bins: int
) -> dict[str, dict[str, float | None]]:
    given = probs.double(), labels
    found = {
        "auroc": auroc(*given, average="none"),
        "ece": expected_calibration_error(*given, num_bins=num_bins, average="none"),
        "mce": maximum_calibration_error(*given, num_bins=num_bins, average="none"),
        "brier": brier_score(*given, average="none"),
    }
    return {name: {key: _finite(each[k]) for key, each in found.items()} for k, name in enumerate(names)}


def _finite(value: float | Tensor | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


TASKS: Mapping[str, Callable[[], task.Task]] = {"training": Training}


def task_named(name: str) -> task.Task:
    """Return a task by name, or from ``module:Class``, optionally with settings."""
    if ":" not in name:
        return named(name, TASKS, "task")()
    try:
        found = imported(name, {})
    except (InputError, TypeError) as error:  # such as: an abstract class
        raise InputError(f"the task {name!r}: {str(error).rstrip('.')}.") from error
    if not isinstance(found, task.Task):
        raise InputError(f"the task {name!r} must be a subclass of {task.__name__}.Task.")
    return found
