"""The data that a recipe names, and how they are prepared."""

from __future__ import annotations

import torch

from calibrant._math.errors import InputError
from calibrant.data import Dataset, Part, Preparation, load, shrink, split
from calibrant.training.recipe_sections import DataSection


def read_data(settings: DataSection) -> Dataset:
    """The data that a recipe names, split as it says.

    Raises:
        InputError: If there are no such data, or they cannot be split so.
    """
    return split(
        load(settings.name),
        calibration=settings.calibration,
        test=settings.test,
        policy=settings.policy,
        train=settings.train or None,
        imbalance=settings.imbalance,
        downsample=settings.downsample,
        seed=settings.seed,
    )


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
    if settings.normalise == "given":
        return Preparation.given(list(settings.mean), list(settings.std), channels)
    return (
        Preparation.fitted(dataset.train.inputs)
        if settings.normalise == "train"
        else Preparation.none(channels)
    )
