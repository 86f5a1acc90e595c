"""What a recipe adds to its loss, or wraps around its optimiser."""

from __future__ import annotations

from torch import nn

from calibrant.curvature import CurvatureRegularizer
from calibrant_lab.training import seeds
from calibrant_lab.training.recipe import Recipe


def build_regularizer(
    recipe: Recipe, model: nn.Module, loss: nn.Module, *, rank: int = 0
) -> CurvatureRegularizer | None:
    """The loss with its penalty, where the recipe has one.

    All processes share the random vector of "hutchinson", so that their shares add up to what one process
    finds; the vectors of "gauss-newton" belong to the samples, so each process draws its own.

    Raises:
        InputError: If the network has no such parameters, or no last linear layer where that is asked for.
    """
    settings = recipe.curvature
    if settings.weight == 0:
        return None
    place = rank if settings.estimator == "gauss-newton" else 0
    return CurvatureRegularizer(
        model,
        loss,
        weight=settings.weight,
        estimator=settings.estimator,
        every=settings.every,
        num_probes=settings.num_probes,
        negative=settings.negative,
        parameters=settings.parameters or None,
        seed=seeds.derived(recipe.seed, seeds.PROBES, place),
    )


def regularizer_facts(recipe: Recipe) -> dict[str, str]:
    """What the recipe adds, in a few words."""
    found: dict[str, str] = {}
    settings = recipe.curvature
    if settings.weight:
        often = "every batch" if settings.every == 1 else f"one of {settings.every} batches"
        part = f" of {', '.join(settings.parameters)}" if settings.parameters else ""
        found["curvature"] = f"{settings.weight:g} × trace{part} by {settings.estimator}, {often}"
    if recipe.sam.rho:
        found["sharpness"] = f"SAM, ρ = {recipe.sam.rho:g}"
    return found
