"""What a lease measures before the first run: the seconds of a step, and whether captured steps are right."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant_lab.sweep.tasks.task import Settings
from calibrant_lab.sweep.tasks.training import data_of, recipe_of
from calibrant_lab.training import Listener, Recipe, train
from calibrant_lab.training.learner import CapturedStep

AGREE = 0.02
"""Captured and plain steps may differ by so much of a value: in bfloat16 no two runs on a GPU are equal."""
COMPARED = ("train_loss", "gradient_norm", "last_layer_norm")


class _Clock(Listener):
    def __init__(self) -> None:
        self.ends: list[float] = []

    def epoch(self, row: Mapping[str, Any]) -> None:
        _ = row
        self.ends.append(time.perf_counter())


def seconds_of_a_step(settings: Settings, *, steps: int) -> float:
    """Of the last of three epochs of so many steps, with all that an epoch ends with."""
    clock = _Clock()
    _rows(_short(settings, steps=steps, epochs=3), clock)
    return (clock.ends[-1] - clock.ends[-2]) / steps


def disagreement(settings: Settings, *, steps: int = 20, epochs: int = 5) -> float:
    """The largest relative difference between epochs of captured and of plain steps on the same draws.

    The learning rate falls on the way, so that a step is captured twice. On a CPU nothing is captured, and
    the difference is 0.
    """
    recipe = _short(settings, steps=steps // epochs, epochs=epochs)
    captured = _rows(recipe, Listener())
    CapturedStep.capturing = False
    try:
        plain = _rows(recipe, Listener())
    finally:
        CapturedStep.capturing = True
    return max(
        abs(one[name] / other[name] - 1)
        for one, other in zip(captured, plain, strict=True)
        for name in COMPARED
    )


def _short(settings: Settings, *, steps: int, epochs: int) -> Recipe:
    recipe = recipe_of(settings)
    return recipe.with_settings(
        [
            f"data.train={steps * recipe.training.batch_size}",
            f"training.epochs={epochs}",
            f"schedule.milestones=[{epochs - 2}]",
            "record.dynamics=false",
        ]
    )


def _rows(recipe: Recipe, listener: Listener) -> Sequence[Mapping[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        return train(recipe, Path(folder) / "run", listener=listener, data=data_of(recipe), report=False).rows
