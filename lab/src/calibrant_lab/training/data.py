"""Load and prepare a recipe's data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from calibrant._math.errors import InputError
from calibrant._math.files import file_or_data
from calibrant_lab.data import Dataset, Geometry, Part, Preparation, RawData, load, shrink, split
from calibrant_lab.data.text.sets import no_vectors, read_vectors
from calibrant_lab.training.listener import Listener
from calibrant_lab.training.recipe import DataSection, Recipe
from calibrant_lab.training.run import Run, RunFolder


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Training data in memory, unchanged by the trainings that share it."""

    dataset: Dataset
    sha256: str  # fingerprint of the data set
    foreign: Part | None = None  # out-of-distribution samples, for the evaluation


def read_training_data(recipe: Recipe) -> TrainingData:
    dataset, name = read_data(recipe.data), recipe.foreign.name
    foreign = read_foreign(name, dataset, recipe.data) if name else None
    return TrainingData(dataset=dataset, sha256=dataset.sha256(), foreign=foreign)


def read_data(settings: DataSection) -> Dataset:
    return split_as(settings, load(settings.name, geometry=geometry_of(settings)))


def data_of(run: Run) -> Dataset:
    """Return a run's training data; refuse changed data."""
    dataset = read_data(run.recipe.data)
    if dataset.sha256() != run.data_sha256:
        raise InputError(f"{run.folder.path} was trained on other data than {dataset.name} holds now.")
    return dataset


def split_as(settings: DataSection, raw: RawData) -> Dataset:
    """Split data by a recipe; add word vectors to texts."""
    cuts = settings.model_dump(include={"calibration", "test", "policy", "imbalance", "downsample", "seed"})
    dataset = split(raw, train=settings.train or None, memory=int(settings.memory * 2**30), **cuts)
    words = dataset.vocabulary
    if not words and settings.vectors:
        raise InputError(f"data.vectors is for texts; {settings.name} has none.")
    if not words:
        return dataset
    if not settings.vectors:
        return replace(dataset, vectors=no_vectors(words))
    path = named_file("data.vectors", settings.vectors, "word vectors")
    return replace(dataset, vectors=read_vectors(path, words))


def named_file(setting: str, name: str, what: str) -> Path:
    path = file_or_data(name)
    if path is None:
        raise InputError(
            f"{setting} must name a file of {what}, by its path or inside the folder CALIBRANT_DATA; there "
            f"is no {name}."
        )
    return path


def geometry_of(settings: DataSection) -> Geometry:
    return Geometry(size=settings.size, channels=settings.channels)


def read_foreign(name: str, dataset: Dataset, settings: DataSection) -> Part:
    """Return the out-of-distribution samples: the set's test split, or all without one."""
    raw = load(name, geometry=geometry_of(settings))
    source = raw.train if raw.test is None else raw.test
    part = shrink(source.rows(memory=int(settings.memory * 2**30)), settings.downsample)
    shape = tuple(part.inputs.shape[1:])
    if shape != dataset.input_shape:
        raise InputError(
            f"`foreign.name` must name samples of shape {dataset.input_shape}, as "
            f"{dataset.name} has; those of {name} are {shape}."
        )
    return part


def preparation(settings: DataSection, dataset: Dataset) -> Preparation:
    channels = dataset.input_shape[0]
    if dataset.vectors is not None or settings.normalise == "none":
        return Preparation.none(channels)
    if settings.normalise == "given":
        return Preparation.given(settings.mean, settings.std, channels)
    return Preparation.fitted(dataset.train.inputs)


def usable_device(name: str) -> torch.device:
    """Return a device that works; ``auto`` is the first GPU, if any."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"the device {name!r} cannot be used: {str(error).splitlines()[0]}") from error
    return device


@dataclass(frozen=True, kw_only=True)
class Job(TrainingData):
    """Input of a training process; picklable if the listener is."""

    recipe: Recipe
    model: nn.Module
    loss: nn.Module
    folder: RunFolder
    listener: Listener
    command: str | None
    report: bool  # True if the finished network is evaluated and reported, beyond its predictions
