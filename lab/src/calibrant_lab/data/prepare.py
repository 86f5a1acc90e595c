"""From stored samples to the inputs of a network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant_lab.data.lazy import LazyImages

_BLOCK, _ENOUGH = 4096, 8192


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Bytes to [0, 1], then each channel (or feature) less its mean, divided by its standard deviation."""

    mean: Float[Tensor, " C"]
    std: Float[Tensor, " C"]

    @classmethod
    def fitted(cls, inputs: Tensor | LazyImages) -> Preparation:
        """With the mean and deviation of the training samples ``inputs``; a constant stays as it is.

        Where images are decoded when they are needed, 8192 evenly spaced ones stand for all.
        """
        if isinstance(inputs, LazyImages) and len(inputs) > _ENOUGH:
            inputs = inputs.chosen(torch.linspace(0, len(inputs) - 1, _ENOUGH).long())
        count, total, squares = 0, 0.0, 0.0
        axes = (0, *range(2, inputs.ndim))
        for first in range(0, len(inputs), _BLOCK):  # a float64 copy of everything could be large
            wide = to_unit(inputs[first : first + _BLOCK]).double()
            total = total + wide.sum(axes)
            squares = squares + wide.square().sum(axes)
            count += wide.numel() // wide.shape[1]
        mean = torch.as_tensor(total) / count
        std = (torch.as_tensor(squares) / count - mean.square()).clamp(min=0).sqrt()
        return cls(mean=mean.float(), std=torch.where(std > 1e-6, std, 1.0).float())

    @classmethod
    def given(cls, mean: list[float], std: list[float], channels: int) -> Preparation:
        """With these numbers, one per channel.

        Raises:
            InputError: If there are not as many as channels, or a deviation is not positive.
        """
        if len(mean) != channels or len(std) != channels or min(std, default=0) <= 0:
            raise InputError(
                f"`mean` and `std` must have one number for each of the {channels} channels, "
                f"and `std` positive ones; got {mean} and {std}."
            )
        return cls(mean=torch.tensor(mean), std=torch.tensor(std))

    @classmethod
    def none(cls, channels: int) -> Preparation:
        """That leaves values in [0, 1] as they are."""
        return cls(mean=torch.zeros(channels), std=torch.ones(channels))

    def to(self, device: torch.device) -> Preparation:
        """The same on another device."""
        return Preparation(mean=self.mean.to(device), std=self.std.to(device))

    def __call__(self, unit: Tensor) -> Tensor:
        """Prepare a batch that :func:`to_unit` has made floats of; word numbers stay as they are."""
        if not unit.is_floating_point():
            return unit
        shape = (1, -1, *(1,) * (unit.ndim - 2))
        return (unit - self.mean.view(shape)) / self.std.view(shape)


def to_unit(inputs: Tensor) -> Tensor:
    """Bytes divided by 255; floats in float32 as they are; int32 (word numbers) untouched."""
    if inputs.dtype == torch.int32:
        return inputs
    return inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs.float()
