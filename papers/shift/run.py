"""Does a repair survive image corruption, and which losses recognise foreign images?"""

import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from calibrant import metrics
from calibrant.calibrators import build
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions
from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION
from calibrant_lab.data import Dataset, LazyImages, Preparation
from calibrant_lab.data.images.corruptions import CORRUPTIONS, CorruptedImages
from calibrant_lab.data.table import to_unit
from calibrant_lab.sweep.tasks.task import RunResult, Settings, Simulation
from calibrant_lab.training import Recipe, train
from calibrant_lab.training.data import preparation, read_data, read_foreign
from calibrant_lab.training.recipe import DataSection
from papers.analysis import Frames, Tables, beside, flat_runs, mean_ci, means_only, ordered, pivot
from papers.loss_rows import called

BATCH = 1000
LOSSES_GRID = Path(__file__).parents[1] / "losses" / "grid.toml"
DEFAULTS: Mapping[str, Any] = {"loss": "cross-entropy", "train": 10_000, "epochs": 21, "images": 2000}
"""As in the study of losses; ``images`` are corrupted, and as many of each foreign set are shown."""
AS_TRAINED = "as-trained"
CALIBRATORS = ("temperature", "focal-temperature", "vector", "ensemble-temperature")
STAGES = (AS_TRAINED, *CALIBRATORS)
SEVERITIES = (1, 2, 3, 4, 5)
FOREIGN: Mapping[str, str] = {"notmnist_ood": "notMNIST", "mnist": "MNIST"}
CORRUPTED = "corrupted"
"""Corrupted images of the highest severity, where they stand among the foreign ones."""
JUDGED = ("error", "ece", "nll", "gap")


class ShiftedNetwork(Simulation):
    name: ClassVar[str] = "shifted-network"
    version: ClassVar[int] = 3
    defaults: ClassVar[Mapping[str, Any]] = DEFAULTS

    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        recipe = recipe_of(settings)
        with tempfile.TemporaryDirectory() as folder:
            run = train(recipe, Path(folder) / "run", report=False)
            model, predictions = run.model(), run.predictions
            train_accuracy = run.rows[-1]["train_accuracy"]
        section, num_images = recipe.data.model_dump_json(), settings["images"]
        dataset = data_of_section(section)
        foreign = {name: read_foreign(name, dataset, recipe.data) for name in FOREIGN}
        found = judged_elsewhere(
            model,
            preparation(recipe.data, dataset),
            predictions,
            corrupted=partial(corrupted_images, section, num_images),
            foreign={name: part.inputs[evenly(len(part), num_images)] for name, part in foreign.items()},
            num_images=num_images,
        )
        return {"train_accuracy": train_accuracy, **found}


def judged_elsewhere(
    model: nn.Module,
    prepared: Preparation,
    predictions: Predictions,
    *,
    corrupted: Callable[[str, int], Tensor],
    foreign: Mapping[str, Tensor],
    num_images: int,
    batch: int = BATCH,
    corruptions: Iterable[str] = CORRUPTIONS,
) -> dict[str, Any]:
    """A network, and calibrators fitted on its held-out samples, on clean, corrupted and foreign images.

    ``corrupted`` are the test images at :func:`evenly` spaced places, by corruption and severity, ``foreign``
    images of other sets by name.
    """
    held_out, test = Labelled.of(predictions.calibration), Labelled.of(predictions.test)
    fitted = {name: fit_quietly(build(name), held_out) for name in CALIBRATORS}

    def stages(logits: Tensor) -> dict[str, Tensor]:
        plain = {AS_TRAINED: logits.double().softmax(1)}
        return plain | {name: each.predict_proba(logits).double() for name, each in fitted.items()}

    known = stages(test.scores)
    rows = evenly(len(test.labels), num_images)
    labels = test.labels[rows]
    shifts: list[dict[str, Any]] = []
    worst: list[dict[str, Tensor]] = []
    for corruption in corruptions:
        for severity in SEVERITIES:
            found = stages(logits_of(model, prepared, corrupted(corruption, severity), batch))
            worst += [found] if severity == max(SEVERITIES) else []
            shifts.append({"corruption": corruption, "severity": severity, **_judged(found, labels)})
    told = {CORRUPTED: {name: torch.cat([each[name] for each in worst]) for name in known}}
    told |= {name: stages(logits_of(model, prepared, images, batch)) for name, images in foreign.items()}
    return {
        "temperature": fitted["temperature"].fit_result_.parameters["temperature"],
        "clean": _judged(known, test.labels),
        "clean_shown": _judged({stage: probs[rows] for stage, probs in known.items()}, labels),
        "foreign": {
            name: {stage: _told(known[stage], probs) for stage, probs in found.items()}
            for name, found in told.items()
        },
        "shifts": shifts,
    }


def recipe_of(settings: Settings) -> Recipe:
    """The recipe of a run: that of the study of losses with another loss and size.

    Example:
        >>> recipe_of({"loss": "brier", "seed": 1, "train": 500, "epochs": 2, "images": 10}).training.epochs
        2
    """
    changes = [f"seed={settings['seed']}", f'loss="{settings["loss"]}"']
    changes += [f"data.train={settings['train']}", f"training.epochs={settings['epochs']}"]
    base = tomllib.loads(LOSSES_GRID.read_text(encoding="utf-8"))["recipe"]
    return Recipe.read(base).with_settings(changes)


@lru_cache(maxsize=2)
def data_of_section(section: str) -> Dataset:
    return read_data(DataSection.model_validate_json(section))


@lru_cache(maxsize=len(CORRUPTIONS) * len(SEVERITIES))
def corrupted_images(section: str, num_images: int, corruption: str, severity: int) -> Tensor:
    """Test images under a corruption, the same ones for every run."""
    inputs = data_of_section(section).test.inputs
    return CorruptedImages(inputs, corruption, severity=severity)[evenly(len(inputs), num_images)]


def logits_of(
    model: nn.Module, prepared: Preparation, images: Tensor | LazyImages, batch: int = BATCH
) -> Tensor:
    """A network's logits, on the CPU, of images as they are stored; it works where the network lies."""
    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    prepared = prepared.to(device)
    batches = (images[start : start + batch].to(device) for start in range(0, len(images), batch))
    with torch.no_grad():
        return torch.cat([model(prepared(to_unit(each))).cpu() for each in batches])


def _judged(found: Mapping[str, Tensor], labels: Tensor) -> dict[str, Any]:
    return {
        stage: {
            "error": float(metrics.error_rate(probs, labels)),
            "ece": float(metrics.expected_calibration_error(probs, labels)),
            "nll": float(metrics.negative_log_likelihood(probs, labels)),
            "gap": float((probs.amax(1) - (probs.argmax(1) == labels).double()).mean()),
        }
        for stage, probs in found.items()
    }


def _told(inside: Tensor, outside: Tensor) -> dict[str, float]:
    """AUROC of telling foreign images from test images, by entropy and by the top probability."""
    found: dict[str, float] = {}
    for score in ("entropy", "max_probability"):
        both = (metrics.out_of_distribution_scores(probs=each, score=score) for each in (inside, outside))
        found[score] = float(metrics.out_of_distribution_detection(*both).auroc)
    return found


def by_severity(shifts: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, float]]]:
    rows = [[each for each in shifts if each["severity"] == severity] for severity in SEVERITIES]
    return {
        stage: [{name: fmean(each[stage][name] for each in of) for name in JUDGED} for of in rows]
        for stage in STAGES
    }


def evenly(total: int, wanted: int) -> Tensor:
    """So many places from the first to the last, or all.

    Example:
        >>> evenly(9, 3).tolist(), evenly(2, 3).tolist()
        ([0, 4, 8], [0, 1])
    """
    return torch.linspace(0, total - 1, min(wanted, total)).long()


LOSSES = called(
    *("cross-entropy", "focal, γ = 3", "FLSD-53", "FCL", "label smoothing", "Brier", "MMCE", "dual focal")
)
KEPT = ("train_accuracy", "temperature", "clean", "clean_shown", "foreign")


def keep(result: RunResult) -> dict[str, Any]:
    """Means over corruptions by severity, and the ECE under each corruption."""
    found = result.rows[0]
    errors = {(of["corruption"], of["severity"]): of for of in found["shifts"]}
    return {
        **{name: found[name] for name in KEPT},
        "cpu_seconds": result.cpu_seconds,
        "severities": by_severity(found["shifts"]),
        "corruptions": {
            name: {stage: [errors[name, s][stage]["ece"] for s in SEVERITIES] for stage in STAGES}
            for name in dict.fromkeys(name for name, _ in errors)
        },
    }


def frames(results: Mapping[str, Any]) -> Frames:
    """``judged`` by stage and place, ``corrupted`` by corruption, and ``foreign`` by set."""
    judged, corrupted, foreign = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for run in flat_runs(results):
        for stage in STAGES:
            key = {"loss": run["loss"], "seed": run["seed"], "stage": stage}
            judged += [{**key, "place": place, **run[place][stage]} for place in ("clean", "clean_shown")]
            judged += [
                {**key, "place": f"severity {severity}", **each}
                for severity, each in zip(SEVERITIES, run["severities"][stage], strict=True)
            ]
            corrupted += [
                {**key, "corruption": name, "severity": severity, "ece": ece}
                for name, of in run["corruptions"].items()
                for severity, ece in zip(SEVERITIES, of[stage], strict=True)
            ]
            foreign += [{**key, "set": name, **of[stage]} for name, of in run["foreign"].items()]
    found = {"judged": judged, "corrupted": corrupted, "foreign": foreign}
    tidy = {name: ordered(pd.DataFrame(rows), "loss", LOSSES) for name, rows in found.items()}
    return {**tidy, "above_clean": _above_clean(tidy)}


def _above_clean(found: Frames) -> pd.DataFrame:
    """ECE at severity 5 less that of the same images when clean, after temperature scaling."""
    scaled = found["judged"].query("stage == 'temperature'")
    clean = scaled.query("place == 'clean_shown'")
    means = scaled.query("place == 'severity 5'").assign(corruption="mean of all")
    each = found["corrupted"].query("stage == 'temperature' and severity == 5 and loss == 'cross-entropy'")
    rows = pd.concat([means, each], ignore_index=True)
    return rows.assign(value=rows.ece - beside(rows, clean, ["loss", "seed"]).ece)


def tables(found: Frames) -> Tables:
    judged = found["judged"].query("place in ['clean_shown', 'severity 5']")
    judged = judged.assign(place=judged.place.replace("clean_shown", "clean"))
    judged = ordered(judged, "stage", {"as-trained": "as trained,", "temperature": "with T,"})
    wide = pivot(judged, ["loss"], ["stage", "place"], "ece")
    return {"short": means_only(wide, ("with T,", "severity 5"))}


def figure(found: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 3.4), layout="constrained")
    places = ["clean_shown", *(f"severity {severity}" for severity in SEVERITIES)]
    left, right = whole.subplots(1, 2, sharey=True)
    colours = {"cross-entropy": VERMILLION, "focal, γ = 3": BLUE}
    for ax, stage in ((left, "as-trained"), (right, "temperature")):
        part = found["judged"][found["judged"].stage == stage]
        for loss, of in part.groupby("loss", observed=True):
            means = [100 * mean_ci(of[of.place == place].ece)[0] for place in places]
            colour, width = colours.get(str(loss), GREY), 2 if loss in colours else 0.8
            ax.plot(range(6), means, color=colour, linewidth=width, label=loss if loss in colours else None)
        ax.set(title=stage.replace("-", " "), xlabel="severity of the corruption (0: clean)")
    left.set(ylabel="ECE in %", ylim=(0, None))
    left.plot([], [], color=GREY, linewidth=0.8, label="six other losses")
    left.legend(loc="best")
    return whole
