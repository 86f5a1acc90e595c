"""The trainings on CIFAR-10, and what is read from them beyond what every followed training tells."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from calibrant.calibrators import build
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions
from calibrant_lab.data import Dataset
from calibrant_lab.data.fetch import located
from calibrant_lab.data.images.corruptions import CorruptedImages
from calibrant_lab.sweep.tasks.task import Outcome, RunResult, Settings, Tell
from calibrant_lab.sweep.tasks.training import recipe_of
from calibrant_lab.training.data import preparation, read_data, read_foreign
from calibrant_lab.training.recipe import DataSection
from calibrant_lab.training.run import load_run
from papers.dynamics.measure import FollowedRun
from papers.human_posteriors.measure import beside_people
from papers.shift.measure import evenly, judged_elsewhere

CORRUPTIONS = ("gaussian-noise", "motion-blur", "fog", "brightness", "contrast", "jpeg-compression")
IMAGES = 2000
"""So many test images are corrupted, and as many of each foreign set are shown."""
FOREIGN = ("fashion_mnist", "notmnist_ood")
PEOPLE = ("temperature", "focal-temperature")
"""What is held against people beside the network as trained."""
_BATCH = 100
"""Larger ones spend as long on fresh memory as on the network."""


class CIFAR10Run(FollowedRun):
    """A followed training that is judged on corrupted and foreign images too, and beside people."""

    name: ClassVar[str] = "cifar10-training"

    def covers(self, result: RunResult, settings: Settings) -> bool:
        return super().covers(result, settings) and {"shift", "people"} <= result.more.keys()

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        _judgements()  # before minutes of training rather than after them
        outcome = super().run(settings, folder, tell)
        run = load_run(folder)
        section = recipe_of(settings).data
        key = section.model_dump_json()
        dataset = _data(key)
        found = judged_elsewhere(
            run.model().to(self.device(settings)),
            preparation(section, dataset),
            run.predictions,
            corrupted=lambda *worse: _corrupted(key, *worse),
            foreign={name: _foreign(key, name) for name in FOREIGN},
            num_images=IMAGES,
            batch=_BATCH,
            corruptions=CORRUPTIONS,
        )
        more = {**outcome.more, "shift": found, "people": people(run.predictions)}
        return replace(outcome, more=more)


@lru_cache(maxsize=1)
def _data(section: str) -> Dataset:
    return read_data(DataSection.model_validate_json(section))


@lru_cache(maxsize=64)
def _corrupted(section: str, corruption: str, severity: int) -> Tensor:
    """Test images under a corruption, the same ones for every run."""
    inputs = _data(section).test.inputs
    return CorruptedImages(inputs, corruption, severity=severity)[evenly(len(inputs), IMAGES)]


@lru_cache(maxsize=8)
def _foreign(section: str, name: str) -> Tensor:
    """Images of another set, made as large and as coloured as those of CIFAR-10."""
    own = DataSection.model_validate_json(section)
    part = read_foreign(name, _data(section), own.model_copy(update={"size": 32, "channels": 3}))
    return part.inputs[evenly(len(part), IMAGES)]


def _judgements() -> Path:
    return located("cifar10h_human_labels", None, files=["cifar10h.npz"]).parents[1]


def people(predictions: Predictions) -> dict[str, dict[str, float]]:
    """How near the network comes to people, as trained and after what held-out images fit."""
    data = beside_people(_judgements(), predictions.test)
    held_out = Labelled.of(predictions.calibration)
    said = {"before": data.log_probs}
    for stage in PEOPLE:
        fitted = fit_quietly(build(stage), held_out)
        said[stage] = fitted.predict_proba(predictions.test.scores.double()).log()
    return {
        stage: {name: float(each.mean()) for name, each in data.scores(log_probs).items()}
        for stage, log_probs in said.items()
    }
