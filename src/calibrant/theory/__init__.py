"""Theory of losses: the probabilities that a loss elicits, and the way back to the true ones.

Functions of NumPy arrays or torch tensors; values are tensors without gradients. ``gamma`` is focal loss's
exponent, greater than -1; an ``InputError`` says which argument is not as it is described. Cited by year:

* Mukhoti et al., "The Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks", 2020.
* Charoenphakdee et al., "On Focal Loss for Class-Posterior Probability Estimation: A Theoretical
  Perspective", CVPR 2021.
* Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and Properness",
  2024, arXiv:2408.11598.
* "Towards Trustworthy Deep Neural Network through Euclidean Distance" (focal calibration loss), 2025.
"""

from calibrant._math.lazy import public_names
from calibrant.theory.decomposition import *
from calibrant.theory.entropy import *
from calibrant.theory.focal_calibration import *
from calibrant.theory.focal_map import *
from calibrant.theory.gradients import *
from calibrant.theory.properness import *
from calibrant.theory.risk_minimiser import *
from calibrant.theory.temperature import *

__all__ = public_names(globals())  # pyright: ignore[reportUnsupportedDunderAll]
