"""The weights that a training begins with."""

from __future__ import annotations

from torch import nn

from calibrant._math.errors import InputError
from calibrant._math.files import file_or_data
from calibrant_lab.models import load_weights
from calibrant_lab.training.recipe_sections import InitialSection


def begin_with(model: nn.Module, settings: InitialSection) -> None:
    """Put the weights of the file into the network, where the recipe names one."""
    if not settings.weights:
        return
    path = file_or_data(settings.weights)
    if path is None:
        raise InputError(
            "initial.weights must name a file of weights, by its path or inside the folder CALIBRANT_DATA; "
            f"there is no {settings.weights}."
        )
    load_weights(model, path, skip=settings.skip)
