"""Random changes to training images, a batch at a time and on any device.

Drawing (on the CPU, from a given generator) is separate from applying, so that several processes can draw for
the whole batch and each change its own share: the result does not depend on how many there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant._math.text_form import build_from


class Augmentation(ABC):
    """A random change to images."""

    @abstractmethod
    def draw(self, num_samples: int, generator: torch.Generator) -> Int[Tensor, "N K"]:
        """Draw what to do with each image."""

    @abstractmethod
    def apply(self, images: Float[Tensor, "N C H W"], drawn: Int[Tensor, "N K"]) -> Float[Tensor, "N C H W"]:
        """Change the images as drawn."""


class Crop(Augmentation):
    """Pad with zeros on every side, then cut a window of the old size out at random.

    Args:
        padding: Pixels on each side.

    Raises:
        InputError: If ``padding`` is not a positive integer.
    """

    def __init__(self, padding: int = 4) -> None:
        check_padding(padding)
        self.padding = padding

    def draw(self, num_samples: int, generator: torch.Generator) -> Int[Tensor, "N K"]:
        """How far down and how far right each window begins."""
        return torch.randint(0, 2 * self.padding + 1, (num_samples, 2), generator=generator)

    def apply(self, images: Float[Tensor, "N C H W"], drawn: Int[Tensor, "N K"]) -> Float[Tensor, "N C H W"]:
        """Cut the windows."""
        num_samples, channels, height, width = images.shape
        padded = torch.nn.functional.pad(images, (self.padding,) * 4)
        down, right = drawn.to(images.device).unbind(1)
        along = torch.arange(max(height, width), device=images.device)
        rows = (down[:, None] + along[:height])[:, None, :, None]
        columns = (right[:, None] + along[:width])[:, None, None, :]
        sample = torch.arange(num_samples, device=images.device)[:, None, None, None]
        channel = torch.arange(channels, device=images.device)[None, :, None, None]
        return padded[sample, channel, rows, columns]


def check_padding(padding: object) -> None:
    """Refuse a padding that is not a positive integer."""
    if isinstance(padding, bool) or not isinstance(padding, int) or padding < 1:
        raise InputError(f"`padding` must be an integer of 1 or more; got {padding!r}.")


class Flip(Augmentation):
    """Mirror half of the images, left to right."""

    def draw(self, num_samples: int, generator: torch.Generator) -> Int[Tensor, "N K"]:
        """One where an image is to be mirrored."""
        return torch.randint(0, 2, (num_samples, 1), generator=generator)

    def apply(self, images: Float[Tensor, "N C H W"], drawn: Int[Tensor, "N K"]) -> Float[Tensor, "N C H W"]:
        """Mirror the images that were drawn."""
        chosen = drawn.to(images.device).bool()[:, :, None, None]
        return torch.where(chosen, images.flip(3), images)


def build_augmentation(texts: Sequence[str], input_shape: tuple[int, ...]) -> tuple[Augmentation, ...]:
    """Make the augmentations that ``texts`` describe, such as ``crop(padding=4)`` and ``flip``.

    Raises:
        InputError: If a name or setting is unknown, or the inputs are not images.

    Example:
        >>> [type(each).__name__ for each in build_augmentation(["crop(padding=2)", "flip"], (3, 32, 32))]
        ['Crop', 'Flip']
    """
    if texts and len(input_shape) != 3:
        raise InputError(f"`augment` is for images; got inputs of shape {input_shape}.")
    return tuple(build_from(text, {"crop": Crop, "flip": Flip}, what="augmentation") for text in texts)
