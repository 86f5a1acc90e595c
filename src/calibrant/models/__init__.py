"""Networks to train: small ones of our own, and yours as ``module:factory``."""

from calibrant.models.cnn import CNN
from calibrant.models.mlp import MLP
from calibrant.models.resnet import ResNet
from calibrant.models.roster import available, build, imported, last_linear

__all__ = ["CNN", "MLP", "ResNet", "available", "build", "imported", "last_linear"]
