"""Training: one recipe carried out in one directory, on one device or many, resumable at any moment."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrant.training.launch import TrainingInterrupted, train
    from calibrant.training.listener import Listener
    from calibrant.training.loss_selection import Selection, alternatives, select
    from calibrant.training.recipe import Recipe, load_recipe
    from calibrant.training.run import Run, load_run

_HOME_OF = {
    "Listener": "listener",
    "Recipe": "recipe",
    "Run": "run",
    "Selection": "loss_selection",
    "TrainingInterrupted": "launch",
    "alternatives": "loss_selection",
    "load_recipe": "recipe",
    "load_run": "run",
    "select": "loss_selection",
    "train": "launch",
}

__all__ = [
    "Listener",
    "Recipe",
    "Run",
    "Selection",
    "TrainingInterrupted",
    "alternatives",
    "load_recipe",
    "load_run",
    "select",
    "train",
]


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        return getattr(import_module(f"calibrant.training.{_HOME_OF[name]}"), name)
    msg = f"module 'calibrant.training' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
