"""Optimisers and learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import Optimizer

from calibrant.training.recipe_sections import OptimiserSection, ScheduleSection


def learning_rate(schedule: ScheduleSection, *, base: float, epoch: int, epochs: int) -> float:
    """Learning rate after ``epoch`` completed epochs; a function of the epoch, without state.

    Example:
        >>> steps = ScheduleSection(name="steps", milestones=(150, 250))
        >>> rates = [learning_rate(steps, base=0.1, epoch=epoch, epochs=350) for epoch in (0, 149, 150, 250)]
        >>> [round(rate, 6) for rate in rates]
        [0.1, 0.1, 0.01, 0.001]
    """
    if epoch < schedule.warmup:
        return base * (epoch + 1) / (schedule.warmup + 1)
    if schedule.name == "steps":
        return base * schedule.factor ** sum(milestone <= epoch for milestone in schedule.milestones)
    if schedule.name == "cosine":
        passed = (epoch - schedule.warmup) / max(1, epochs - schedule.warmup)
        return base * (schedule.floor + (1 - schedule.floor) * (1 + math.cos(math.pi * passed)) / 2)
    return base


def build_optimiser(settings: OptimiserSection, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """The optimiser that the recipe asks for."""
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.name == "sgd":
        return torch.optim.SGD(
            parameters, lr=rate, momentum=settings.momentum, weight_decay=decay, nesterov=settings.nesterov
        )
    kind = torch.optim.Adam if settings.name == "adam" else torch.optim.AdamW
    return kind(parameters, lr=rate, betas=settings.betas, weight_decay=decay)
