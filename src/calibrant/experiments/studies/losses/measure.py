"""Trains the arms of the loss study and measures what became of them, run by run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calibrant import metrics
from calibrant._math.errors import ConvergenceError
from calibrant._math.files import write_text
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import Calibrator, TemperatureScaling, build
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.experiments.studies.losses.numbers import STAGES
from calibrant.experiments.studies.losses.settings import SETTINGS, Arm, Setting
from calibrant.predictions import load_predictions
from calibrant.training import Listener, Recipe, load_recipe, train
from calibrant.training.data import read_data
from calibrant.training.run import RunFolder

FORMAT = 2
_CACHE = "study-numbers.json"


def base_recipe(setting: Setting) -> Recipe:
    """What the arms of a setting start from.

    Example:
        >>> from calibrant.experiments.studies.losses.settings import LONG_TAIL
        >>> base_recipe(LONG_TAIL).data.imbalance
        100.0
    """
    return Recipe.read(setting.base).with_settings(list(setting.changes))


@dataclass(frozen=True, kw_only=True)
class Place:
    """One run of the study and where it lies."""

    setting: Setting
    arm: Arm
    seed: int
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether the run was trained and judged."""
        return RunFolder(self.folder).evaluation.is_file()

    @property
    def recipe(self) -> Recipe:
        """What makes the run."""
        return base_recipe(self.setting).with_settings([f"seed={self.seed}", *self.arm.changes])

    def __str__(self) -> str:
        return f"{self.setting.key}/{self.arm.key}/seed-{self.seed}"


def places(
    store: Path, *, settings: Sequence[Setting] = SETTINGS, seeds: Sequence[int] = (0, 1, 2)
) -> Iterator[Place]:
    """Every run in the order to train them, such that a study cut short is of use.

    Every setting with the first seed, then the first setting with the other seeds, then the next; arms marked
    ``last`` at the end.

    Example:
        >>> first = next(places(Path("store")))
        >>> str(first), first.folder.as_posix()
        ('fashion-mnist/cross-entropy-no-decay/seed-0', 'store/fashion-mnist/cross-entropy-no-decay/seed-0')
    """
    rounds = [(setting, seed) for seed in seeds[:1] for setting in settings]
    rounds += [(setting, seed) for setting in settings for seed in seeds[1:]]
    for last in (False, True):
        for setting, seed in rounds:
            for arm in setting.arms:
                if arm.last == last:
                    folder = store / setting.key / arm.key / f"seed-{seed}"
                    yield Place(setting=setting, arm=arm, seed=seed, folder=folder)


class WeightNorms(Listener):
    """Notes the norm of the last layer's weights after each epoch, from the checkpoint just written."""

    FILE = "weight-norms.jsonl"

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Add a line; where an epoch was done twice, the later line counts."""
        state = self.folder.load_checkpoint()
        if state is None:
            return
        matrices = [value for value in state["model"].values() if value.ndim == 2]
        norm = float(matrices[-1].double().norm())
        with (self.folder.path / self.FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"epoch": row["epoch"], "norm": norm}) + "\n")

    @classmethod
    def read(cls, folder: Path) -> dict[str, float]:
        """The norm after each epoch, by the epoch's number."""
        path = folder / cls.FILE
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        return {str(row["epoch"]): row["norm"] for row in rows}


def run_loss_study(
    store: Path,
    *,
    settings: Sequence[Setting] = SETTINGS,
    seeds: Sequence[int] = (0, 1, 2),
    command: str | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> tuple[Place, ...]:
    """Train what is not trained yet; each run is a directory of ``calibrant train`` in ``store``.

    An interrupted run goes on after its last whole epoch. A run that diverges is reported, and left
    unfinished.

    Args:
        store: The folder of the runs.
        settings: Which settings.
        seeds: Seeds of the trainings; the samples of each split stay the same.
        command: The command line to record.
        tell: Told in one line what begins and what diverged.

    Returns:
        The runs that are finished, old ones included.

    Raises:
        InputError: If a directory holds something else.
        TrainingInterrupted: If Ctrl-C came; what is done is saved.
    """
    wanted = tuple(places(store, settings=settings, seeds=seeds))
    for number, place in enumerate(wanted, start=1):
        if place.finished:
            continue
        tell(f"{number}/{len(wanted)} {place}")
        place.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            train(place.recipe, place.folder, listener=WeightNorms(place.folder), command=command)
        except ConvergenceError as error:
            tell(f"{place}: {error}")
    return tuple(place for place in wanted if place.finished)


def collect(store: Path, setting: Setting, seeds: Sequence[int]) -> dict[str, dict[int, Mapping[str, Any]]]:
    """What the finished runs of a setting show, by arm and seed; an arm without any is left out."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for place in places(store, settings=[setting], seeds=seeds):
        if place.finished:
            found.setdefault(place.arm.key, {})[place.seed] = run_numbers(place)
    return found


def run_numbers(place: Place) -> Mapping[str, Any]:
    """What a finished run shows; computed once, then read from a file in its directory."""
    cache = place.folder / _CACHE
    if cache.is_file():
        content = json.loads(cache.read_text(encoding="utf-8"))
        if content.get("format") == FORMAT:
            return content
    content = {"format": FORMAT, **_measured(place.folder)}
    write_text(cache, json.dumps(content, allow_nan=False) + "\n")
    return content


def training_counts(setting: Setting) -> list[int]:
    """Training samples of each class."""
    data = read_data(base_recipe(setting).data)
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
