"""Fit calibrators to files of predictions, and apply them."""

from typing import TYPE_CHECKING

from calibrant._math.lazy import declared_exports

if TYPE_CHECKING:
    from calibrant.repair.applying import apply as apply
    from calibrant.repair.fitting import fit as fit

__getattr__, __dir__, __all__ = declared_exports(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
