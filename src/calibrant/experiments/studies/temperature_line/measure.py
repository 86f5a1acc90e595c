"""How linear the best temperature is in the exponent of focal temperature scaling: on files and networks.

Komisarenko and Kull (2024) saw in their figure 8 a relation "close to linear", proposed to search along the
line only, and left open how good that is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from calibrant import metrics
from calibrant._math.errors import InputError
from calibrant._math.threads import threads_for
from calibrant.calibrators import FocalTemperatureScaling, TemperatureScaling, temperature_ridge
from calibrant.data import load
from calibrant.evaluation.fitting.split import stratified_folds
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.experiments.prediction_files import prediction_files
from calibrant.experiments.records import Record, Records
from calibrant.experiments.studies.demo.comparison import ALL, FEW
from calibrant.experiments.studies.demo.networks import Digits, Setting, digits, train_together
from calibrant.experiments.studies.temperature_line.settings import (
    CRITERIA,
    DIVISIONS,
    GAMMAS,
    LOSSES,
    Criterion,
)
from calibrant.predictions import Predictions

_HELD_OUT = 10_000  # images of Fashion-MNIST
_STEP = GAMMAS[1] - GAMMAS[0]
_MEASURES = {"nll": metrics.negative_log_likelihood, "ece": metrics.expected_calibration_error}


@dataclass(frozen=True, kw_only=True)
class World:
    """Data and how much of them the networks see."""

    title: str
    setting: Setting
    images: Literal["digits", "fashion_mnist"] = "digits"


WORLDS = (
    World(title="digits, little data", setting=FEW),
    World(title="digits, all data", setting=ALL),
    World(
        title="Fashion-MNIST",
        setting=Setting(side=14, num_training=5000, num_calibration=2000, num_epochs=30, batch_size=100),
        images="fashion_mnist",
    ),
)


def run_temperature_line(
    store: Path,
    *,
    folder: Path | None,
    seeds: Sequence[int],
    worlds: Sequence[World] = WORLDS,
    divisions: int = DIVISIONS,
    tell: Callable[[str], None] = print,
) -> list[Record]:
    """Follow the best temperature on every file and every network, unless the store has it.

    Without a folder of data sets there are only the networks on digits.
    """
    records = Records(store / "temperature-line-runs.jsonl")
    found: list[Record] = []
    with threads_for(0):
        for name, problem, criteria in _problems(folder):
            found.append(records.get(name, partial(_follow, problem, criteria, divisions)))
            tell(f"temperature-line: {name}")
        for world, seed in itertools.product(worlds, seeds):
            if world.images != "digits" and folder is None:
                continue
            key = f"{world.title}, seed {seed}"
            found.append(records.get(key, partial(_train, world, seed, folder, divisions)))
            tell(f"temperature-line: {key}")
    return found


def _problems(folder: Path | None) -> Iterator[tuple[str, Predictions, Sequence[Criterion]]]:
    """Every file of predictions with all scores; of several labels per sample each, by likelihood alone."""
    if folder is None:
        return
    for name, given in prediction_files(folder):
        if given.kind == "top_label" or given.labels is None:
            continue
        if given.kind != "multilabel":
            yield name, given.with_split(None), CRITERIA
            continue
        for label in range(given.values.shape[1]):
            values, labels = given.values[:, label], given.labels[:, label]
            logits, probs = (values, None) if given.space == "logits" else (None, values)
            yield (
                f"{name}, label {label}",
                Predictions(logits=logits, probs=probs, labels=labels),
                CRITERIA[:1],
            )


def _train(world: World, seed: int, folder: Path | None, divisions: int) -> dict[str, Any]:
    """A network for each loss, and what is found on its held-out samples."""
    data = (
        digits(world.setting, [seed]) if world.images == "digits" else _fashion(world.setting, seed, folder)
    )
    logits = train_together(world.setting, data, list(LOSSES), [seed])[:, 0]
    labels = data.labels[torch.cat([data.calibration, data.test], dim=1)[0]]
    return {
        "world": world.title,
        "seed": seed,
        "networks": [
            {"loss": loss, **_follow(Predictions(logits=mine, labels=labels), CRITERIA, divisions)}
            for loss, mine in zip(LOSSES, logits, strict=True)
        ],
    }


def _fashion(setting: Setting, seed: int, folder: Path | None) -> Digits:
    """Fashion-MNIST averaged over squares of pixels; 10 000 images of the training set are held out."""
    source = load("fashion_mnist", folder=folder).train
    order = np.random.default_rng(seed).permutation(len(source.labels))
    part = source.rows(torch.from_numpy(order[: setting.num_training + _HELD_OUT]))
    inputs = part.inputs[:]
    pixels = inputs if inputs.is_floating_point() else inputs / 255
    places = torch.arange(len(part.labels))[None]
    first, last = setting.num_training, setting.num_training + setting.num_calibration
    return Digits(
        images=torch.nn.functional.avg_pool2d(pixels.float(), pixels.shape[-1] // setting.side).flatten(1),
        labels=part.labels.long(),
        training=places[:, :first],
        calibration=places[:, first:last],
        test=places[:, last:],
    )


def _follow(problem: Predictions, criteria: Sequence[Criterion], divisions: int) -> dict[str, Any]:
    """The ridges by either criterion, what the searches reach on them, and what they are worth elsewhere."""
    data = Labelled.of(problem)
    ridges = {
        by: temperature_ridge(data.scores, data.labels, gammas=GAMMAS, weights=data.weights, objective=by)
        for by in criteria
    }
    return {
        "num_samples": problem.num_samples,
        "num_classes": problem.num_classes,
        "accuracy": float(problem.correct.double().mean()),
        "temperatures": {by: ridge.temperatures.tolist() for by, ridge in ridges.items()},
        "values": {by: ridge.values.tolist() for by, ridge in ridges.items()},
        "reached": _reached(data, float(GAMMAS[int(ridges["nll"].values.argmin())])),
        "held_out": {by: [_elsewhere(problem, by, seed) for seed in range(divisions)] for by in criteria},
    }


def _reached(data: Labelled, near: float) -> dict[str, float]:
    """Least likelihood loss on all samples: at exponent 0, on the line, in its range, and anywhere."""
    full = fit_quietly(FocalTemperatureScaling(), data).fit_result_
    line = fit_quietly(FocalTemperatureScaling(search="fine-line"), data).fit_result_
    coarse = fit_quietly(FocalTemperatureScaling(search="line"), data).fit_result_
    around = np.linspace(near - _STEP, near + _STEP, 21).clip(GAMMAS[0], GAMMAS[-1]).tolist()
    within = temperature_ridge(data.scores, data.labels, gammas=around, weights=data.weights).lowest
    return {
        "plain": full.compared["temperature"],
        "line": line.after,
        "coarse": coarse.after,
        "range": min(within.value, line.after, coarse.after),
        "full": full.after,
        "gamma_on_line": _number(line.parameters["gamma"]),
        "gamma_in_range": within.gamma,
        "gamma": _number(full.parameters["gamma"]),
    }


def _elsewhere(problem: Predictions, by: Criterion, seed: int) -> dict[str, float]:
    """The criterion on one half, after fits on the other."""
    halves = stratified_folds(problem, 2, seed)
    fitted, judged = Labelled.of(problem.rows(halves == 0)), Labelled.of(problem.rows(halves == 1))
    calibrators = {
        "plain": TemperatureScaling(objective=by),
        "line": FocalTemperatureScaling(objective=by, search="fine-line"),
        "full": FocalTemperatureScaling(objective=by),
    }
    return {
        name: float(
            _MEASURES[by](
                fit_quietly(calibrator, fitted).predict_proba(judged.scores),
                judged.labels,
                weights=judged.weights,
            )
        )
        for name, calibrator in calibrators.items()
    }


def _number(value: float | tuple[float, ...]) -> float:
    if isinstance(value, tuple):
        raise InputError("one label at a time, please.")
    return value
