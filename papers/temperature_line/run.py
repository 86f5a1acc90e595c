"""Is the best temperature linear in the exponent of focal temperature scaling?

What shares its data counts once: the labels of one file, and the networks of one seed.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from calibrant import metrics
from calibrant._math.errors import InputError
from calibrant._math.machine import threads_for
from calibrant._math.text_form import named
from calibrant.calibrators import FocalTemperatureScaling
from calibrant.calibrators.fitting.objectives import in_effect
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.searches import (
    LINE_GAMMAS,
    PAPER_TEMPERATURES,
    best_on_papers_line,
    better,
    fit_temperature,
    of_place,
)
from calibrant.demo.comparison import ALL, FEW
from calibrant.demo.networks import Digits, Setting, digits, train_together
from calibrant.evaluation.fitting.split import stratified_folds
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions
from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION, series
from calibrant_lab.data import load
from calibrant_lab.data.lazy import feed
from calibrant_lab.figures import temperature_ridge
from calibrant_lab.sweep.tasks.task import Fingerprints, Settings, Simulation, completed, digest_of, state_of
from papers.analysis import Frames, Tables, flat_runs, means_only, pivot, reaching
from papers.prediction_files import ENDINGS, data_folder, read_file

Criterion = Literal["nll", "ece"]
CRITERIA: tuple[Criterion, ...] = ("nll", "ece")
STEP = 0.25
GAMMAS: tuple[float, ...] = tuple(-0.5 + STEP * place for place in range(23))
"""The exponents that are followed, over the range of the search along the line."""
LOSSES = ("cross-entropy", *(f"focal(gamma={gamma})" for gamma in (1, 2, 3, 5)))
DIVISIONS = 3
_HELD_OUT = 10_000  # images of Fashion-MNIST
_FINE_GAMMAS = np.linspace(LINE_GAMMAS[0], LINE_GAMMAS[-1], len(PAPER_TEMPERATURES)).tolist()
_MEASURES = {"nll": metrics.negative_log_likelihood, "ece": metrics.expected_calibration_error}
_FASHION = "Fashion-MNIST"
WORLDS: Mapping[str, Setting] = {
    "digits, little data": FEW,
    "digits, all data": ALL,
    _FASHION: Setting(side=14, num_training=5000, num_calibration=2000, num_epochs=30, batch_size=100),
}
"""Data, and how much of them the networks see."""


class FineLine(FocalTemperatureScaling):
    """Searched along the line in the steps of the paper's grid: T = 0.01, ..., 5.00, and 500 exponents."""

    def _solve(self, samples: Samples) -> Solution:
        objective = in_effect(self.objective, samples)
        simpler = fit_temperature(samples, objective, "continuous")
        best, steps = best_on_papers_line(samples, objective, None, PAPER_TEMPERATURES, _FINE_GAMMAS)
        return better(of_place(best, steps, simpler, spacing=0.01), simpler)


class TemperatureLine(Simulation):
    """The networks of one seed on some data, or a file of predictions; numbers of the data may be changed."""

    name: ClassVar[str] = "temperature-line"
    version: ClassVar[int] = 1
    costly: ClassVar[tuple[str, ...]] = ("subject", "num_training", "num_epochs")

    def complete(self, settings: Settings) -> Settings:
        subject = str(settings.get("subject", next(iter(WORLDS))))
        world = FEW if _is_file(subject) else named(subject, WORLDS, "data")
        every = {"seed": 0, "subject": subject, "divisions": DIVISIONS, **asdict(world)}
        return completed(settings, every) | ({"seed": 0} if _is_file(subject) else {})

    def deciding(self, settings: Settings) -> Settings:
        """For a file, only its name and how often it is halved."""
        if _is_file(settings["subject"]):
            return {name: settings[name] for name in ("subject", "divisions")}
        return settings

    def inputs(self, settings: Settings, fingerprints: Fingerprints) -> Mapping[str, str]:
        """The file, or the images where they do not come with scikit-learn."""
        subject = settings["subject"]
        if _is_file(subject):
            path = _path(subject)
            return {"file": fingerprints.get(state_of([path]), lambda: digest_of(path))}
        if subject != _FASHION:
            return {}
        state = state_of([Path(os.environ.get("CALIBRANT_DATA", "")) / "fashion_mnist"])
        return {"images": fingerprints.get(state, _digest_of_images)}

    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        subject, divisions = settings["subject"], settings["divisions"]
        with threads_for(0):
            if _is_file(subject):
                return {"arms": _of_file(subject, divisions)}
            setting = Setting(**{name: settings[name] for name in asdict(WORLDS[subject])})
            return {"arms": _of_networks(subject, setting, settings["seed"], divisions)}


def _is_file(subject: str) -> bool:
    return subject.endswith(ENDINGS)


def _path(subject: str) -> Path:
    path = data_folder() / subject
    if not path.is_file():
        raise InputError(f"there is no file {subject} in {data_folder()}, which CALIBRANT_DATA names.")
    return path


def _digest_of_images() -> str:
    source, digest = load("fashion_mnist").train, hashlib.sha256()
    every = source.rows(torch.arange(len(source.labels)))
    for part in (every.inputs, every.labels):
        feed(digest, part)
    return digest.hexdigest()


def _of_file(name: str, divisions: int) -> list[dict[str, Any]]:
    """A file; each of its labels, if a sample has several, by likelihood alone."""
    given = read_file(_path(name))
    if given is None or given.kind == "top_label" or given.labels is None:
        raise InputError(f"{name} must hold labels and the scores of all classes.")
    if given.kind != "multilabel":
        return [{"name": name, **_follow(given.with_split(None), CRITERIA, divisions)}]
    problems = [
        Predictions(**{given.space: given.values[:, label]}, labels=given.labels[:, label])
        for label in range(given.values.shape[1])
    ]
    return [
        {"name": f"{name}, label {label}", **_follow(problem, CRITERIA[:1], divisions)}
        for label, problem in enumerate(problems)
    ]


def _of_networks(subject: str, setting: Setting, seed: int, divisions: int) -> list[dict[str, Any]]:
    """A network for each loss, and what is found on its held-out samples."""
    data = _fashion(setting, seed) if subject == _FASHION else digits(setting, [seed])
    logits = train_together(setting, data, list(LOSSES), [seed])[:, 0]
    labels = data.labels[torch.cat([data.calibration, data.test], dim=1)[0]]
    return [
        {"name": loss, **_follow(Predictions(logits=mine, labels=labels), CRITERIA, divisions)}
        for loss, mine in zip(LOSSES, logits, strict=True)
    ]


def _fashion(setting: Setting, seed: int) -> Digits:
    """Fashion-MNIST averaged over squares of pixels; 10 000 images of the training set are held out."""
    source = load("fashion_mnist").train
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
    how = {"gammas": GAMMAS, "weights": data.weights}
    ridges = {by: temperature_ridge(data.scores, data.labels, objective=by, **how) for by in criteria}
    halves = {by: [_elsewhere(problem, by, seed) for seed in range(divisions)] for by in criteria}
    return {
        "num_classes": problem.num_classes,
        "temperatures": {by: ridge.temperatures.tolist() for by, ridge in ridges.items()},
        "nll": _reached(data, float(GAMMAS[int(ridges["nll"].values.argmin())])),
        "held_out": {
            by: {name: fmean(half[name] for half in found) for name in ("line", "full")}
            for by, found in halves.items()
        },
    }


def _reached(data: Labelled, near: float) -> dict[str, float]:
    """Least likelihood loss on all samples: at exponent 0, on the line, in its range, and anywhere."""
    full, line, coarse = (
        fit_quietly(scaling, data).fit_result_
        for scaling in (FocalTemperatureScaling(), FineLine(), FocalTemperatureScaling(search="line"))
    )
    around = np.linspace(near - STEP, near + STEP, 21).clip(GAMMAS[0], GAMMAS[-1]).tolist()
    within = temperature_ridge(data.scores, data.labels, gammas=around, weights=data.weights).lowest
    return {
        "plain": full.compared["temperature"],
        "line": line.after,
        "coarse": coarse.after,
        "range": min(within.value, line.after, coarse.after),
        "full": full.after,
    }


def _elsewhere(problem: Predictions, by: Criterion, seed: int) -> dict[str, float]:
    """The criterion on one half, after searches along the line and everywhere on the other."""
    halves = stratified_folds(problem, 2, seed)
    fitted, other = Labelled.of(problem.rows(halves == 0)), Labelled.of(problem.rows(halves == 1))
    found: dict[str, float] = {}
    for name, kind in {"line": FineLine, "full": FocalTemperatureScaling}.items():
        probs = fit_quietly(kind(objective=by), fitted).predict_proba(other.scores)
        found[name] = float(_MEASURES[by](probs, other.labels, weights=other.weights))
    return found


DIGITS = 8
CE = "cross-entropy"
TITLES = {name: name if name == CE else f"γ = {name[-2]}" for name in LOSSES}
FOCAL = ("γ = 1", "γ = 2", "γ = 3")
"""The losses of which it is claimed that they need a temperature nearer to 1."""
SPAN = (1.5, 3.0)
"""Cross-entropy's temperatures against which the paper holds focal loss's."""
GROUPS = ("files, two classes", "files, more classes", *WORLDS)
ZERO = GAMMAS.index(0.0)


def frames(results: Mapping[str, Any]) -> Frames:
    """``curves``, a row for each; ``units``, means over what shares its data; ``nearer``, by seed."""
    every = ((run, arm) for run in flat_runs(results) for arm in run["arms"])
    curves = pd.DataFrame(_curve(run["subject"], run["seed"], arm) for run, arm in every)
    curves["group"] = pd.Categorical(curves.group, GROUPS, ordered=True)
    numbers = curves.select_dtypes("number").columns
    groups = curves.groupby(["unit", "kind", "group"], observed=True, sort=False)[list(numbers)]
    means = groups.mean().reset_index().assign(seed=lambda rows: rows.unit)
    units = means.melt(["unit", "kind", "group", "seed"], list(numbers.drop("seed")), "quantity").dropna()
    return {"curves": curves, "units": units, "nearer": _nearer(curves[curves.kind == "networks"])}


def _curve(subject: str, seed: int, arm: Mapping[str, Any]) -> dict[str, Any]:
    """How straight the temperatures are, and what searches along their line lose."""
    network, likeliest = arm["name"] in TITLES, np.array(arm["temperatures"]["nll"])
    line, inverse = straight(likeliest), straight(1 / likeliest)
    by_ece = straight(np.array(arm["temperatures"].get("ece", [np.nan] * len(GAMMAS))))
    held_out = {by: found["full"] - found["line"] for by, found in arm["held_out"].items()}
    two = "two" if arm["num_classes"] == 2 else "more"
    return {
        "unit": f"{subject}, seed {seed}" if network else subject,
        "kind": "networks" if network else "files",
        "group": subject if network else f"files, {two} classes",
        "loss": TITLES.get(arm["name"]),
        "seed": seed,
        "T": likeliest[ZERO],
        **line,
        "off inverse": inverse["off"],
        "off less inverse": line["off"] - inverse["off"],
        "off by ECE less NLL": by_ece["off"] - line["off"],
        "gain": arm["nll"]["plain"] - arm["nll"]["range"],
        "lost": arm["nll"]["line"] - arm["nll"]["range"],
        "fine less coarse": arm["nll"]["line"] - arm["nll"]["coarse"],
        **{f"full less line, {by}": held_out.get(by, np.nan) for by in ("nll", "ece")},
        "temperatures": likeliest,
    }


def straight(values: np.ndarray) -> dict[str, float]:
    """R² of the line of least squares over the exponents, its slope as a share of the value at 0.

    ``off`` is the largest distance from it, as a share of the number itself.

    Example:
        >>> found = straight(2 + np.array(GAMMAS))
        >>> round(found["R²"], 6), round(found["slope"], 6), round(found["off"], 6)
        (1.0, 0.5, 0.0)
    """
    if np.isnan(values).any():
        return dict.fromkeys(("R²", "slope", "off"), np.nan)
    slope, start = np.polyfit(GAMMAS, values, 1)
    rest = values - (start + slope * np.array(GAMMAS))
    spread = ((values - values.mean()) ** 2).sum()
    found = {"R²": 1 - (rest**2).sum() / spread, "slope": slope / start, "off": np.abs(rest / values).max()}
    return {name: float(value) for name, value in found.items()}


def _nearer(networks: pd.DataFrame) -> pd.DataFrame:
    """How much nearer to 1 than cross-entropy's the temperatures of focal loss are, by seed."""
    far = networks.assign(far=np.log(networks["T"]).abs())
    far = far.pivot(index=["group", "seed"], columns="loss", values="far")
    usual = reaching(networks[networks.loss == CE], "group", "T", SPAN)
    found = (far[list(FOCAL)].mean(axis=1) - far[CE]).rename("value").reset_index()
    return found.assign(usual=found.group.map(usual).astype(bool))


def tables(found: Frames) -> Tables:
    units = found["units"]
    heads = {
        "R² of T": ("R²", 4, 1),
        "T off by %": ("off", 1, 100),
        "1/T off by %": ("off inverse", 1, 100),
        "γ gains": ("gain", 5, 1),
        "line loses": ("lost", 5, 1),
    }
    columns = {
        title: pivot(units[units.quantity == name], ["group"], [], "value", digits=digits, scale=scale).value
        for title, (name, digits, scale) in heads.items()
    }
    return {"short": means_only(pd.DataFrame(columns), "γ gains", "line loses")}


def figure(found: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = whole.subplots(1, 2)
    curves = found["curves"]
    for group, colour in (("files, two classes", VERMILLION), ("files, more classes", BLUE)):
        for place, values in enumerate(curves[curves.group == group].temperatures):
            label = None if place else group
            left.plot(GAMMAS, values / values[ZERO], color=colour, linewidth=0.8, label=label)
    left.set(xlabel="exponent γ of the calibrator", ylabel="best T, as a multiple of that at γ = 0")
    networks = curves[curves.group == "Fashion-MNIST"]
    for place, (loss, of) in enumerate(networks.groupby("loss")):
        right.plot(GAMMAS, np.mean(of.temperatures.tolist(), axis=0), color=series(place)[0], label=loss)
    right.axhline(1, color=GREY, linewidth=0.8)
    right.set(xlabel="exponent γ of the calibrator", ylabel="best T on Fashion-MNIST, mean")
    for ax in (left, right):
        ax.legend(fontsize="small")
    return whole
