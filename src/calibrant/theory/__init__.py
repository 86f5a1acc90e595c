"""Theory of losses: the probabilities that a loss elicits, and the way back to the true ones.

Functions of NumPy arrays or torch tensors; values are tensors without gradients.
"""

from calibrant._math.lazy import public_names
from calibrant.theory.confidence import *
from calibrant.theory.decomposition import *
from calibrant.theory.entropy import *
from calibrant.theory.focal_calibration import *
from calibrant.theory.focal_map import *
from calibrant.theory.gradients import *
from calibrant.theory.properness import *
from calibrant.theory.risk_minimiser import *
from calibrant.theory.temperature import *

__all__ = public_names(globals())  # pyright: ignore[reportUnsupportedDunderAll]
