"""Train classifiers by recipe, sweep over grids, and tabulate the runs: the laboratory beside calibrant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._math.lazy import lazy_exports

if TYPE_CHECKING:
    from calibrant_lab import data, models, sweep, tables, training
    from calibrant_lab.training import load_recipe, load_run, train

__version__ = "0.2.0"

__all__ = [
    "__version__",
    "data",
    "load_recipe",
    "load_run",
    "models",
    "sweep",
    "tables",
    "train",
    "training",
]

__getattr__, __dir__ = lazy_exports(__name__, __all__, {"training": ["load_recipe", "load_run", "train"]})
