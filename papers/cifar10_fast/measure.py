"""The trainings of the registered sweep on CIFAR-10, and what is kept of each."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._math.files import atomic_write
from calibrant.predictions import Predictions
from calibrant_lab.data.fetch import cache_folder
from calibrant_lab.data.images.corruptions import CORRUPTIONS, CorruptedImages
from calibrant_lab.sweep.tasks.task import Outcome, Settings, Tell
from calibrant_lab.sweep.tasks.training import Training, data_of, recipe_of
from calibrant_lab.training import Recipe
from calibrant_lab.training.data import preparation, read_foreign
from calibrant_lab.training.run import Run, load_run
from papers.shift.run import evenly, logits_of

LOGITS, WEIGHTS = "logits.npz", "weights.pt"
IMAGES, SEVERITY = 1000, 3
"""So many test images are corrupted, this strongly, and as many of each out-of-distribution set are shown."""
OUT_OF_DISTRIBUTION = ("mnist", "notmnist_ood")
WITH_WEIGHTS = 2
"""The weights of so many seeds are kept, the first ones."""
EDGES = np.logspace(-6, 2, 81)
"""Edges of the histograms of gradient norms."""


class FastRun(Training):
    """A training that keeps the logits of further images, and the weights of the first seeds."""

    name: ClassVar[str] = "cifar10-fast"
    files: ClassVar[Mapping[str, str]] = {
        **Training.files,
        LOGITS: "float16 logits of both splits, training and further images; histograms of gradients",
        WEIGHTS: "weights in bfloat16, of the first seeds",
    }

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        outcome = super().run(settings, folder, tell)
        recipe, run = recipe_of(settings), load_run(folder)
        model = run.model()
        if recipe.seed < WITH_WEIGHTS:
            with atomic_write(folder / WEIGHTS) as temporary:
                torch.save(_in_half(model), temporary)
        kept = kept_of(model.to(self.device(settings)), recipe, run)
        with atomic_write(folder / LOGITS) as temporary:
            np.savez_compressed(temporary, allow_pickle=False, **kept)
        return outcome


def kept_of(model: nn.Module, recipe: Recipe, run: Run) -> dict[str, Any]:
    """Logits in float16 by set, labels of the three splits in bytes, and histograms of gradient norms."""
    dataset = data_of(recipe).dataset
    seen = evenly(len(dataset.train), recipe.record.samples)
    images: dict[str, Tensor] = {"train": dataset.train.inputs[seen], **elsewhere(recipe)}
    device = next(model.parameters()).device.type
    half = recipe.training.precision == "bf16-mixed"
    with torch.autocast(device, torch.bfloat16, enabled=half):
        prepared = preparation(recipe.data, dataset)
        logits = {name: logits_of(model, prepared, each).float() for name, each in images.items()}
    predictions = run.predictions
    for name, part in (("calibration", predictions.calibration), ("test", predictions.test)):
        logits[name] = part.scores
    labels = {"train": dataset.train.labels[seen], "calibration": dataset.calibration.labels}
    labels["test"] = dataset.test.labels
    return {
        **{name: each.numpy().astype(np.float16) for name, each in logits.items()},
        **{f"{name}_labels": each.numpy().astype(np.uint8) for name, each in labels.items()},
        **{
            f"gradients-{epoch:04}": np.histogram(found["gradient_norms"], EDGES)[0]
            for epoch, found in run.snapshots.items()
        },
    }


def predictions_of(path: Path) -> Predictions:
    """The predictions on both splits, from the logits that were kept."""
    with np.load(path, allow_pickle=False) as kept:
        parts = [(torch.from_numpy(kept[name]), kept[f"{name}_labels"]) for name in ("calibration", "test")]
    return Predictions(
        logits=torch.cat([logits for logits, _ in parts]).float(),
        labels=torch.cat([torch.from_numpy(labels).long() for _, labels in parts]),
        split=torch.cat([torch.full((len(labels),), place) for place, (_, labels) in enumerate(parts)]),
    )


def elsewhere(recipe: Recipe) -> dict[str, Tensor]:
    """Corrupted test images and out-of-distribution images, computed once for all runs of a machine."""
    path = cache_folder() / f"cifar10-fast-{data_of(recipe).sha256[:16]}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {name: each.numpy() for name, each in _computed(recipe).items()}
        with atomic_write(path) as temporary:
            np.savez(temporary, allow_pickle=False, **found)
    return _read(path)


@lru_cache(maxsize=1)
def _read(path: Path) -> dict[str, Tensor]:
    with np.load(path, allow_pickle=False) as found:
        return {name: torch.from_numpy(found[name]) for name in found.files}


def _computed(recipe: Recipe) -> dict[str, Tensor]:
    dataset = data_of(recipe).dataset
    rows = evenly(len(dataset.test), IMAGES)
    sets = {name: CorruptedImages(dataset.test.inputs, name, severity=SEVERITY)[rows] for name in CORRUPTIONS}
    section = recipe.data.model_copy(update={"size": 32, "channels": 3})
    for name in OUT_OF_DISTRIBUTION:
        part = read_foreign(name, dataset, section)
        sets[name] = part.inputs[evenly(len(part), IMAGES)]
    return sets


def _in_half(model: nn.Module) -> dict[str, Tensor]:
    state = model.state_dict().items()
    return {name: each.bfloat16() if each.is_floating_point() else each for name, each in state}
