"""What a training has to do, as each of its processes is told."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from calibrant_lab.data import Dataset, Part
from calibrant_lab.training.listener import Listener
from calibrant_lab.training.recipe import Recipe
from calibrant_lab.training.run import RunFolder


@dataclass(frozen=True, kw_only=True)
class Job:
    """All that a process needs to take part; picklable if the listener is."""

    recipe: Recipe
    dataset: Dataset
    foreign: Part | None
    """Out-of-distribution samples, for the evaluation of the finished network."""
    data_sha256: str
    model: nn.Module
    loss: nn.Module
    folder: RunFolder
    listener: Listener
    command: str | None
    report: bool
    """Whether the finished network is evaluated and reported on, beyond its predictions."""
