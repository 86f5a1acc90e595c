"""Train classifiers by recipe, sweep over grids, and tabulate the runs: calibrant's laboratory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant import __version__ as __version__
from calibrant._math.lazy import declared_exports

if TYPE_CHECKING:
    from calibrant_lab import data as data
    from calibrant_lab import models as models
    from calibrant_lab import sweep as sweep
    from calibrant_lab import tables as tables
    from calibrant_lab import training as training
    from calibrant_lab.training import load_recipe as load_recipe
    from calibrant_lab.training import load_run as load_run
    from calibrant_lab.training import train as train

__getattr__, __dir__, _public = declared_exports(__name__, __file__)
__all__ = ["__version__", *_public]  # pyright: ignore[reportUnsupportedDunderAll]
