"""What a recipe adds to its loss or puts round its optimiser, and what a step costs with it."""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from calibrant.curvature import SAM, CurvatureRegularizer
from calibrant.training import seeds
from calibrant.training.recipe import Recipe
from calibrant.training.schedule import build_optimiser

_ROUNDS, _MOST_SECONDS = 15, 10.0


def build_regularizer(
    recipe: Recipe, model: nn.Module, loss: nn.Module, *, rank: int = 0
) -> CurvatureRegularizer | None:
    """The loss with its penalty, where the recipe has one.

    The random vector of "hutchinson" is that of all processes, whose shares then add up to what one process
    finds; those of "gauss-newton" belong to the samples, so each process has its own.

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


def regularised_facts(recipe: Recipe) -> dict[str, str]:
    """What a recipe adds, in a few words."""
    found: dict[str, str] = {}
    settings = recipe.curvature
    if settings.weight:
        often = "every batch" if settings.every == 1 else f"one of {settings.every} batches"
        part = f" of {', '.join(settings.parameters)}" if settings.parameters else ""
        found["curvature"] = f"{settings.weight:g} × trace{part} by {settings.estimator}, {often}"
    if recipe.sam.rho:
        found["sharpness"] = f"SAM, ρ = {recipe.sam.rho:g}"
    return found


def cost_facts(cost: Mapping[str, Any] | None) -> dict[str, str]:
    """What :func:`measured_cost` found, in a few words.

    Example:
        >>> cost_facts({"times_cross_entropy": 2.5, "milliseconds": 5.0, "cross_entropy_milliseconds": 2.0})
        {'cost': 'a step took 2.5 × one of plain cross-entropy (5 ms against 2 ms)'}
    """
    if cost is None:
        return {}
    mine, plain = cost["milliseconds"], cost["cross_entropy_milliseconds"]
    times = cost["times_cross_entropy"]
    said = f"a step took {times:.2g} × one of plain cross-entropy ({mine:.3g} ms against {plain:.3g} ms)"
    return {"cost": said}


def measured_cost(
    recipe: Recipe,
    model: nn.Module,
    loss: nn.Module,
    *,
    run: Callable[[nn.Module, Tensor], Tensor],
    inputs: Tensor,
    labels: Tensor,
) -> dict[str, Any] | None:
    """Milliseconds of a training step of the recipe, and of one by plain cross-entropy, in turn on one batch.

    A copy of the network takes the steps, at a learning rate of zero, in this process alone; None where it
    cannot be copied. Medians of at most 15 rounds, of less where these took ten seconds. A penalty on one of
    k batches counts as its mean over k.
    """
    try:
        model, loss = copy.deepcopy(model), copy.deepcopy(loss)
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    for value in model.parameters():
        value.grad = None
    steps = _steps(recipe, model.train(), loss, run=run, inputs=inputs, labels=labels)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    begun = time.perf_counter()
    for number in range(_ROUNDS + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if inputs.device.type == "cuda":
                torch.cuda.synchronize(inputs.device)
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
        if number > 2 and time.perf_counter() - begun > _MOST_SECONDS:
            break
    found = {name: 1e3 * statistics.median(times) for name, times in seconds.items()}
    every = recipe.curvature.every if recipe.curvature.weight else 1
    mine = (found["whole"] + (every - 1) * found["loss"]) / every
    plain = found["cross-entropy"]
    return {
        "milliseconds": mine,
        "cross_entropy_milliseconds": plain,
        "times_cross_entropy": mine / plain if plain else math.inf,
        "batch_size": len(labels),
        "threads": torch.get_num_threads(),
        "rounds": len(seconds["whole"]),
    }


def _steps(
    recipe: Recipe,
    model: nn.Module,
    loss: nn.Module,
    *,
    run: Callable[[nn.Module, Tensor], Tensor],
    inputs: Tensor,
    labels: Tensor,
) -> dict[str, Callable[[], object]]:
    """A step of cross-entropy, of the recipe's loss alone, and of that with all that the recipe adds."""
    optimiser = build_optimiser(recipe.optimiser, model.parameters())
    for group in optimiser.param_groups:
        group["lr"] = 0.0
    every_batch = recipe.model_copy(update={"curvature": recipe.curvature.model_copy(update={"every": 1})})
    penalised = build_regularizer(every_batch, model, loss)
    sam = SAM(model, optimiser, rho=recipe.sam.rho)

    def step_of(criterion: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], object]:
        def step() -> None:
            optimiser.zero_grad()
            criterion(run(model, inputs), labels).backward()
            optimiser.step()

        return step

    climbing = recipe.sam.rho > 0
    return {
        "cross-entropy": step_of(functional.cross_entropy),
        "loss": step_of(loss),
        "whole": (lambda: sam.step(lambda: loss(run(model, inputs), labels)))
        if climbing
        else step_of(penalised or loss),
    }
