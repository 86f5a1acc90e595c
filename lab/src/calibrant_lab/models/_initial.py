"""Initial weights other than torch's; what has no memory (device ``meta``) is left alone."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn


def he_normal(model: nn.Module, *, mode: Literal["fan_in", "fan_out"]) -> None:
    """Draw every convolution's weights anew from He's normal distribution, in the order of the modules."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and not module.weight.is_meta:
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")


def normal(parameter: Tensor, *, deviation: float) -> None:
    """Draw a parameter anew from a normal distribution around 0."""
    if not parameter.is_meta:
        nn.init.normal_(parameter, std=deviation)
