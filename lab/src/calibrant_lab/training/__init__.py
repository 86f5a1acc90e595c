"""Training: one recipe in one directory, on one or many devices, resumable at any time."""

from typing import TYPE_CHECKING

from calibrant._math.lazy import declared_exports

if TYPE_CHECKING:
    from calibrant_lab.training.launch import TrainingInterrupted as TrainingInterrupted
    from calibrant_lab.training.launch import train as train
    from calibrant_lab.training.listener import Listener as Listener
    from calibrant_lab.training.loss_selection import Selection as Selection
    from calibrant_lab.training.loss_selection import alternatives as alternatives
    from calibrant_lab.training.loss_selection import select as select
    from calibrant_lab.training.recipe import Recipe as Recipe
    from calibrant_lab.training.recipe import at_budget as at_budget
    from calibrant_lab.training.recipe import load_recipe as load_recipe
    from calibrant_lab.training.run import Run as Run
    from calibrant_lab.training.run import load_run as load_run

__getattr__, __dir__, __all__ = declared_exports(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
