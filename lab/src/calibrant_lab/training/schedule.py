"""Optimisers and learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant_lab.training.recipe import OptimiserSection, ScheduleSection

RELATIVE_RATE = "relative_rate"  # entry of a parameter group: its learning rate against that of the recipe


class JointOptimiser(Optimizer):
    """Optimisers that step together, at ``rates`` relative to the recipe's."""

    def __init__(self, parts: Sequence[Optimizer], *, rates: Sequence[float]) -> None:
        self.parts = tuple(parts)
        self._counts = [len(part.param_groups) for part in parts]
        for part, rate in zip(parts, rates, strict=True):
            for group in part.param_groups:
                group[RELATIVE_RATE] = rate
        super().__init__([group for part in parts for group in part.param_groups], {})
        for part in parts:
            self.state.update(part.state)
        self._share()

    def step(self, closure: Any = None) -> Any:
        value = None if closure is None else closure()
        for part in self.parts:
            part.step()
        return value

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        """Share this state and these groups with the parts, as both may have been replaced."""
        place = 0
        for part, count in zip(self.parts, self._counts, strict=True):
            part.state = self.state
            part.param_groups = self.param_groups[place : place + count]
            place += count


_LEAST_FALL = 1e-4  # of the lowest loss, as torch has it


def learning_rate(
    schedule: ScheduleSection, *, base: float, epoch: int, epochs: int, losses: Sequence[float | None] = ()
) -> float:
    """Return the learning rate after ``epoch`` epochs, as a pure function of the past."""
    if epoch < schedule.warmup:
        return base * (epoch + 1) / (schedule.warmup + 1)
    if schedule.name == "steps":
        return base * schedule.factor ** sum(milestone <= epoch for milestone in schedule.milestones)
    if schedule.name == "plateau":
        return base * schedule.factor ** _plateaus(losses, schedule.patience)
    if schedule.name == "cosine":
        passed = (epoch - schedule.warmup) / max(1, epochs - schedule.warmup)
        return base * (schedule.floor + (1 - schedule.floor) * (1 + math.cos(math.pi * passed)) / 2)
    return base


def _plateaus(losses: Sequence[float | None], patience: int) -> int:
    """Return how often the loss went more than ``patience`` epochs without a new minimum."""
    best, idle, found = math.inf, 0, 0
    for loss in losses:
        if loss is not None and loss < best * (1 - _LEAST_FALL):
            best, idle = loss, 0
        else:
            idle += 1
        if idle > patience:
            found, idle = found + 1, 0
    return found


def build_optimiser(settings: OptimiserSection, model: nn.Module) -> Optimizer:
    if not settings.plain:
        return _optimiser(settings, model.parameters())
    named = dict(model.named_parameters())
    chosen: set[str] = set()
    for wanted in settings.plain:
        under = {name for name in named if name == wanted or name.startswith(f"{wanted}.")}
        if not under:
            layers = {name.rpartition(".")[0] or name: None for name in named}
            raise InputError(
                f"optimiser.plain names {wanted!r}, which the network lacks{nearest(wanted, layers)}"
            )
        chosen |= under
    if len(chosen) == len(named):
        raise InputError("optimiser.plain must leave parameters to the optimiser; take sgd for all of them.")
    return JointOptimiser(
        [
            _optimiser(settings, [value for name, value in named.items() if name not in chosen]),
            torch.optim.SGD([named[name] for name in named if name in chosen], lr=settings.plain_rate),
        ],
        rates=[1.0, settings.plain_rate / settings.learning_rate],
    )


def _optimiser(settings: OptimiserSection, parameters: Iterable[nn.Parameter]) -> Optimizer:
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.name == "adagrad":
        return torch.optim.Adagrad(parameters, lr=rate, weight_decay=decay)
    if settings.name == "sgd":
        return torch.optim.SGD(
            parameters, lr=rate, momentum=settings.momentum, weight_decay=decay, nesterov=settings.nesterov
        )
    kind = torch.optim.Adam if settings.name == "adam" else torch.optim.AdamW
    return kind(parameters, lr=rate, betas=settings.betas, weight_decay=decay)
