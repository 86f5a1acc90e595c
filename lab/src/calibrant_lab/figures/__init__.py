"""Figures of the theory, and of the objective of focal temperature scaling."""

from typing import TYPE_CHECKING

from calibrant._math.lazy import declared_exports

if TYPE_CHECKING:
    from calibrant_lab.figures.landscape import Landscape as Landscape
    from calibrant_lab.figures.landscape import TemperatureRidge as TemperatureRidge
    from calibrant_lab.figures.landscape import objective_landscape as objective_landscape
    from calibrant_lab.figures.landscape import temperature_ridge as temperature_ridge
    from calibrant_lab.figures.landscape_heat_map import landscape_heat_map as landscape_heat_map
    from calibrant_lab.figures.landscape_heat_map import landscape_key as landscape_key
    from calibrant_lab.figures.landscape_heat_map import landscape_sentence as landscape_sentence

__getattr__, __dir__, __all__ = declared_exports(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
