"""Claims of single papers on focal losses, computed: their validity and counterexamples.

Functions on top of :mod:`calibrant.theory`; values are numbers, or tensors without gradients.
"""

from calibrant._math.lazy import public_names
from calibrant_lab.theory.asymptotics import *
from calibrant_lab.theory.claims import *
from calibrant_lab.theory.generalisation import *

__all__ = public_names(globals())  # pyright: ignore[reportUnsupportedDunderAll]
