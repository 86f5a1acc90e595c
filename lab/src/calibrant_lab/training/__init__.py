"""Training: one recipe carried out in one directory, on one device or many, resumable at any moment."""

from typing import TYPE_CHECKING

from calibrant._math.lazy import lazy_exports

if TYPE_CHECKING:
    from calibrant_lab.training.budget import at_budget
    from calibrant_lab.training.launch import TrainingInterrupted, train
    from calibrant_lab.training.listener import Listener
    from calibrant_lab.training.loss_selection import Selection, alternatives, select
    from calibrant_lab.training.recipe import Recipe, load_recipe
    from calibrant_lab.training.run import Run, load_run

__all__ = [
    "Listener",
    "Recipe",
    "Run",
    "Selection",
    "TrainingInterrupted",
    "alternatives",
    "at_budget",
    "load_recipe",
    "load_run",
    "select",
    "train",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    __all__,
    {
        "budget": ["at_budget"],
        "launch": ["TrainingInterrupted", "train"],
        "listener": ["Listener"],
        "recipe": ["Recipe", "load_recipe"],
        "run": ["Run", "load_run"],
        "loss_selection": ["Selection", "alternatives", "select"],
    },
)
