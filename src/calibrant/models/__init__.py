"""Networks to train: small ones of our own, and yours as ``module:factory``."""

from calibrant.models.roster import *
from calibrant.models.roster import __all__ as __all__
