"""The data that a recipe names, and how they are prepared."""

from __future__ import annotations

from dataclasses import replace

import torch

from calibrant._math.errors import InputError
from calibrant.data import Dataset, Part, Preparation, load, shrink, split
from calibrant.data.text.vectors import no_vectors, read_vectors, vectors_path
from calibrant.training.recipe_sections import DataSection


def read_data(settings: DataSection) -> Dataset:
    """The data that a recipe names, split as it says; texts with the vectors of their words.

    Raises:
        InputError: If there are no such data or vectors, or they cannot be split so.
    """
    dataset = split(
        load(settings.name, words=settings.words, length=settings.length),
        calibration=settings.calibration,
        test=settings.test,
        policy=settings.policy,
        train=settings.train or None,
        imbalance=settings.imbalance,
        downsample=settings.downsample,
        seed=settings.seed,
    )
    words = dataset.vocabulary
    if not words and settings.vectors:
        raise InputError(f"data.vectors is for texts; {settings.name} has none.")
    if not words:
        return dataset
    found = read_vectors(vectors_path(settings.vectors), words) if settings.vectors else no_vectors(words)
    return replace(dataset, vectors=found)


def read_foreign(name: str, dataset: Dataset, *, downsample: int) -> Part:
    """The samples of a set that the network does not know: its test split, or all where it has none.

    Raises:
        InputError: If there is no such set, or its samples have another shape than those of ``dataset``.
    """
    raw = load(name)
    source = raw.train if raw.test is None else raw.test
    part = shrink(source.rows(torch.arange(len(source.labels))), downsample)
    shape = tuple(part.inputs.shape[1:])
    if shape != dataset.input_shape:
        raise InputError(
            f"evaluation.out_of_distribution must name samples of shape {dataset.input_shape}, as "
            f"{dataset.name} has; those of {name} are {shape}."
        )
    return part


def preparation(settings: DataSection, dataset: Dataset) -> Preparation:
    """How the recipe wants the samples prepared."""
    channels = dataset.input_shape[0]
    if dataset.vectors is not None:
        return Preparation.none(channels)
    if settings.normalise == "given":
        return Preparation.given(list(settings.mean), list(settings.std), channels)
    return (
        Preparation.fitted(dataset.train.inputs)
        if settings.normalise == "train"
        else Preparation.none(channels)
    )
