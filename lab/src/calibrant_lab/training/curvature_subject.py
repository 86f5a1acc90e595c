"""The trained network whose curvature is measured: a finished run, or a factory with weights and data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from calibrant._math.errors import InputError
from calibrant_lab.data import Dataset
from calibrant_lab.models import build as build_model
from calibrant_lab.models import load_weights
from calibrant_lab.training.data import read_data
from calibrant_lab.training.loss import FollowsEpochs, build_loss
from calibrant_lab.training.recipe import Recipe
from calibrant_lab.training.run import Run, load_run
from calibrant_lab.training.views import network_shape


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A trained network with its training loss and its data."""

    title: str
    recipe: Recipe
    model: nn.Module
    loss: nn.Module
    """As it was in the last epoch."""
    dataset: Dataset
    run: Run | None = None


def subject_of_run(path: str | os.PathLike[str]) -> Subject:
    """A finished run with the data that it was trained on.

    Raises:
        InputError: If there is no finished run, or its data are gone or have changed.
    """
    run = load_run(path)
    if run.evaluation is None:
        raise InputError(f"{path} is not finished; `calibrant train {path}` resumes it.")
    dataset = read_data(run.recipe.data)
    if dataset.sha256() != run.data_sha256:
        raise InputError(
            f"{path} was trained on other data than {dataset.name} holds now, so its curvature cannot be "
            "measured."
        )
    return Subject(
        title=str(path),
        recipe=run.recipe,
        model=run.model(),
        loss=_loss_of_run(run, dataset),
        dataset=dataset,
        run=run,
    )


def subject_of_factory(
    factory: str, weights: str | os.PathLike[str], data: str, *, loss: str, settings: Sequence[str] = ()
) -> Subject:
    """A network given by a factory (or a name that recipes know), a file of weights, and data.

    Args:
        factory: As a recipe's ``model``.
        weights: A state dictionary: ``.safetensors``, or what ``torch.save`` wrote.
        data: As a recipe's ``data.name``.
        loss: What the network was trained with, as a recipe's ``loss``.
        settings: Further settings of a recipe that say how samples are cut and prepared, such as
            ``data.normalise=none``.

    Raises:
        InputError: If the network cannot be built, or the weights do not fit it.
    """
    recipe = Recipe.read({"model": factory, "loss": loss, "data": {"name": data}}).with_settings(settings)
    dataset = read_data(recipe.data)
    with torch.random.fork_rng(devices=[]):
        model = build_model(
            recipe.model,
            input_shape=network_shape(recipe, dataset),
            num_classes=dataset.num_classes,
            vectors=dataset.vectors,
        )
    load_weights(model, weights)
    return Subject(
        title=f"{factory}, {weights}",
        recipe=recipe,
        model=model.eval(),
        loss=build_loss(recipe, dataset),
        dataset=dataset,
    )


def _loss_of_run(run: Run, dataset: Dataset) -> nn.Module:
    """The loss as it was in the last epoch: some change with it, or follow held-out samples."""
    loss = build_loss(run.recipe, dataset)
    state = run.folder.load_checkpoint()
    if state is not None:
        loss.load_state_dict(state["loss"])
        if isinstance(loss, FollowsEpochs):
            loss.step(max(int(state["epoch"]) - 1, 0))
    return loss.eval()
