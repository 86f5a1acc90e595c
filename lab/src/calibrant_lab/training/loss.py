"""Build a recipe's loss with its additions, and define the hooks of losses."""

from __future__ import annotations

import copy
import warnings
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from calibrant import losses
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.shapes import Float, Int
from calibrant._math.text_form import parse_call
from calibrant.curvature import CurvatureRegularizer
from calibrant.losses._module import MultilabelLossModule
from calibrant_lab.data import Dataset, Part
from calibrant_lab.elsewhere import imported
from calibrant_lab.training import seeds
from calibrant_lab.training.recipe import Recipe


def check_task(recipe: Recipe, dataset: Dataset, loss: nn.Module) -> None:
    """Refuse settings that do not fit single or multiple labels."""
    own = ":" not in recipe.loss.partition("(")[0]
    if not dataset.multilabel:
        if own and isinstance(loss, MultilabelLossModule):
            raise InputError(
                f"`loss` must be one of classes: each sample of {dataset.name} has one label; "
                f"got {recipe.loss}."
            )
        return
    if own and not isinstance(loss, MultilabelLossModule | BalancedLabels):
        raise InputError(
            f"`loss` must be multilabel-focal or multilabel-focal-calibration where samples have several "
            f"labels; got {recipe.loss}: for binary cross-entropy write multilabel-focal(gamma=0)."
        )
    for setting, asked in {
        "curvature.weight": recipe.curvature.weight > 0,
        "sam.rho": recipe.sam.rho > 0,
        "record.dynamics": recipe.record.dynamics,
        "shift.corruption": bool(recipe.shift.corruption),
        "a loss that follows confidences": hasattr(loss, "update"),
    }.items():
        if asked:
            raise InputError(
                f"{setting} is for samples with one label each; those of {dataset.name} may have several."
            )


class BalancedLabels(nn.Module):
    r"""A multilabel loss that weights both answers of every label equally.

    A label j that a share :math:`\pi_j` of the training samples has weighs :math:`1 / 2 \pi_j` where it is 1
    and :math:`1 / 2 (1 - \pi_j)` where it is 0: on average 1. The ratio of the two is that of Rajpurkar et
    al. (CheXNet, 2017).
    """

    weights: Float[Tensor, "2 C"]

    def __init__(self, loss: MultilabelLossModule, labels: Int[Tensor, "N C"]) -> None:
        super().__init__()
        shares = labels.double().mean(dim=0)
        if not bool(((shares > 0) & (shares < 1)).all()):
            one_sided = int(((shares == 0) | (shares == 1)).int().argmax())
            raise InputError(
                f"label {one_sided} is the same in all training samples, so labels cannot be balanced; "
                "set training.class_weights to none."
            )
        self.loss = copy.copy(loss)
        self.loss.reduction = "none"
        self.register_buffer("weights", torch.stack([0.5 / (1 - shares), 0.5 / shares]).float())

    def forward(self, logits: Float[Tensor, "N C"], labels: Int[Tensor, "N C"]) -> Float[Tensor, ""]:
        weights = torch.where(labels == 1, self.weights[1], self.weights[0])
        return (weights * self.loss(logits, labels)).mean()


@runtime_checkable
class FollowsEpochs(Protocol):
    """A loss that changes with the epoch."""

    def step(self, epoch: int) -> None:
        """Start an epoch; the first is 0."""


@runtime_checkable
class FollowsConfidences(Protocol):
    """A loss that adapts to the network's confidences on held-out samples."""

    def update(self, confidences: Tensor, correct: Tensor) -> None:
        """Adapt after an epoch to held-out confidences and correctness."""


@runtime_checkable
class LabelsParts(Protocol):
    """A network whose training logits belong to parts of samples, such as the nodes of trees."""

    def training_labels(self, inputs: Tensor, labels: Tensor, /) -> Tensor:
        """Return the labels of the parts, a row for each row of the logits."""
        ...


def labels_of_parts(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Return the labels for a training batch's logits, of samples or of their parts."""
    return model.training_labels(inputs, labels) if isinstance(model, LabelsParts) else labels


def build_loss(recipe: Recipe, dataset: Dataset) -> nn.Module:
    """Build a recipe's loss as a mean over the batch (turned into a sum later on demand)."""
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
    if ":" in loss.partition("(")[0]:
        return
    name, settings = parse_call(loss)
    several = settings.get("gammas")
    given = [settings.get("gamma"), settings.get("initial_gamma")]
    given += several if isinstance(several, tuple | list) else []
    gammas = [gamma for gamma in given if isinstance(gamma, int | float)]
    if "focal" in name and max(gammas, default=0) >= 7:
        warnings.warn(
            f"{loss}: with gamma of 7 or more gradients die around a probability of one half "
            "(their factor is .046 at gamma 7, .008 at 10).",
            CalibrantWarning,
            stacklevel=3,
        )


def class_weights(part: Part, num_classes: int) -> Float[Tensor, " C"]:
    counts = torch.bincount(part.labels, minlength=num_classes)
    if not bool((counts > 0).all()):
        raise InputError(
            f"class {int(counts.argmin())} has no training samples, so classes cannot be balanced; "
            "set training.class_weights to none."
        )
    return len(part) / (num_classes * counts.float())


def build_regularizer(
    recipe: Recipe, model: nn.Module, loss: nn.Module, *, rank: int = 0
) -> CurvatureRegularizer | None:
    """Build the penalised loss if the recipe has a penalty.

    All processes share the random vector of "hutchinson", so that their shares add up to what one process
    finds; the vectors of "gauss-newton" belong to the samples, so each process draws its own.
    """
    settings = recipe.curvature
    if settings.weight == 0:
        return None
    place = rank if settings.estimator == "gauss-newton" else 0
    seed, parameters = seeds.derived(recipe.seed, seeds.PROBES, place), settings.parameters or None
    rest = settings.model_dump(exclude={"parameters"})
    return CurvatureRegularizer(model, loss, parameters=parameters, seed=seed, **rest)


def regularizer_facts(recipe: Recipe) -> dict[str, str]:
    found: dict[str, str] = {}
    settings = recipe.curvature
    if settings.weight:
        often = "every batch" if settings.every == 1 else f"one of {settings.every} batches"
        part = f" of {', '.join(settings.parameters)}" if settings.parameters else ""
        found["curvature"] = f"{settings.weight:g} × trace{part} by {settings.estimator}, {often}"
    if recipe.sam.rho:
        found["sharpness"] = f"SAM, ρ = {recipe.sam.rho:g}"
    return found
