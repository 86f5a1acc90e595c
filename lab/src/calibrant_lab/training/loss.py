"""The loss that a recipe names, and what it may ask of the loop."""

from __future__ import annotations

import warnings
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from calibrant import losses
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.shapes import Float
from calibrant._math.text_form import parse_call
from calibrant.losses._module import MultilabelLossModule
from calibrant_lab.data import Dataset, Part
from calibrant_lab.models import imported
from calibrant_lab.training.multilabel import BalancedLabels
from calibrant_lab.training.recipe import Recipe

DYING_GRADIENTS = 7.0


@runtime_checkable
class FollowsEpochs(Protocol):
    """A loss that changes with the epoch."""

    def step(self, epoch: int) -> None:
        """An epoch begins; the first is 0."""


@runtime_checkable
class FollowsConfidences(Protocol):
    """A loss that adapts to the network's confidences on held-out samples."""

    def update(self, confidences: Tensor, correct: Tensor) -> None:
        """An epoch is over: confidences on held-out samples, and whether the network was right."""


@runtime_checkable
class LabelsParts(Protocol):
    """A network that, in training, gives logits for parts of its samples, such as the nodes of trees."""

    def training_labels(self, inputs: Tensor, labels: Tensor, /) -> Tensor:
        """The labels of the parts, a row for each row of the logits."""
        ...


def labels_of_parts(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """What the logits of a training batch are compared with: the labels, or those of the samples' parts."""
    return model.training_labels(inputs, labels) if isinstance(model, LabelsParts) else labels


def build_loss(recipe: Recipe, dataset: Dataset) -> nn.Module:
    """The loss that a recipe names, as a mean over the batch (turned into a sum later where wanted).

    Raises:
        InputError: If there is no such loss, or the recipe asks for class weights and it takes none.
    """
    if ":" in recipe.loss.partition("(")[0]:
        loss = imported(recipe.loss, {"num_classes": dataset.num_classes})
        if not isinstance(loss, nn.Module):
            raise InputError(f"{recipe.loss} must give a torch.nn.Module; got {type(loss).__name__}.")
    else:
        loss = losses.build(recipe.loss)
    if recipe.training.class_weights == "balanced":
        if isinstance(loss, MultilabelLossModule) and dataset.multilabel:
            return BalancedLabels(loss, dataset.train.labels)
        if dataset.multilabel or not hasattr(loss, "weight"):
            raise InputError(f"{recipe.loss} takes no class weights; set training.class_weights to none.")
        loss.weight = class_weights(dataset.train, dataset.num_classes)
    return loss


def warn_of_dying_gradients(loss: str) -> None:
    """Warn of a focal loss with a large exponent."""
    if ":" in loss.partition("(")[0]:
        return
    name, settings = parse_call(loss)
    given = [settings.get("gamma"), settings.get("initial_gamma"), *_several(settings.get("gammas"))]
    gammas = [gamma for gamma in given if isinstance(gamma, int | float)]
    if "focal" in name and max(gammas, default=0) >= DYING_GRADIENTS:
        warnings.warn(
            f"{loss}: with gamma of 7 or more gradients die around a probability of one half "
            "(their factor is .046 at gamma 7, .008 at 10).",
            CalibrantWarning,
            stacklevel=3,
        )


def _several(gammas: object) -> tuple[object, ...]:
    return tuple(gammas) if isinstance(gammas, tuple | list) else ()


def class_weights(part: Part, num_classes: int) -> Float[Tensor, " C"]:
    """Weights inverse to the frequency of the classes, with mean one over the samples.

    Raises:
        InputError: If a class has no samples.
    """
    counts = torch.bincount(part.labels, minlength=num_classes)
    if not bool((counts > 0).all()):
        raise InputError(
            f"class {int(counts.argmin())} has no training samples, so classes cannot be balanced; "
            "set training.class_weights to none."
        )
    return len(part) / (num_classes * counts.float())
