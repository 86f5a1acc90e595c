"""Networks to train: built-in small ones, or yours as ``module:factory``."""

from calibrant_lab.models.roster import *
from calibrant_lab.models.roster import __all__ as __all__
