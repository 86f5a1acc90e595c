"""The time of a training step, against one of plain cross-entropy."""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from calibrant.curvature import SAM
from calibrant_lab.training.loss import build_regularizer
from calibrant_lab.training.recipe import Recipe
from calibrant_lab.training.schedule import build_optimiser

_Criterion: TypeAlias = Callable[[Tensor, Tensor], Tensor]
_ROUNDS, _MOST_SECONDS = 15, 10.0


def cost_facts(cost: Mapping[str, Any] | None) -> dict[str, str]:
    """The result of :func:`measured_cost`, in a few words."""
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
    cannot be copied. Medians of 15 rounds, or of as many as ten seconds allow. A penalty on one of k batches
    counts as its mean over k.
    """
    try:
        model, loss = copy.deepcopy(model), copy.deepcopy(loss)
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    for value in model.parameters():
        value.grad = None
    model.train()
    steps = _steps(recipe, model, lambda criterion: criterion(run(model, inputs), labels), loss)
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
    recipe: Recipe, model: nn.Module, value: Callable[[_Criterion], Tensor], loss: nn.Module
) -> dict[str, Callable[[], object]]:
    """A step of cross-entropy, of the recipe's loss alone, and of that with everything the recipe adds."""
    optimiser = build_optimiser(recipe.optimiser, model)
    for group in optimiser.param_groups:
        group["lr"] = 0.0
    every_batch = recipe.model_copy(update={"curvature": recipe.curvature.model_copy(update={"every": 1})})
    penalised = build_regularizer(every_batch, model, loss)
    sam = SAM(model, optimiser, rho=recipe.sam.rho)

    def step_of(criterion: _Criterion) -> Callable[[], object]:
        def step() -> None:
            optimiser.zero_grad()
            value(criterion).backward()
            optimiser.step()

        return step

    return {
        "cross-entropy": step_of(functional.cross_entropy),
        "loss": step_of(loss),
        "whole": step_of(penalised or loss) if recipe.sam.rho == 0 else lambda: sam.step(lambda: value(loss)),
    }
