"""Random changes to training images, a batch at a time and on any device.

Drawing (from a given generator; on a GPU only crops and flips) is separate from applying. So every process
can draw for the whole batch and change its own share, and results do not depend on the number of processes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant._math.text_form import build_from

_UNIT = 2**24  # numbers in [0, 1) are drawn as whole ones below this
_TRIES = 10
_SLIMMEST = 3 / 4  # width to height; 4 / 3 is the widest


class Augmentation(ABC):
    """A random change to images."""

    @abstractmethod
    def draw(self, num_samples: int, generator: torch.Generator) -> Int[Tensor, "N K"]:
        """Draw the parameters of each image's change."""

    @abstractmethod
    def apply(
        self, images: Float[Tensor, "N C H W"], drawn: Int[Tensor, "N K"]
    ) -> Float[Tensor, "N C H W"]: ...


def _windows(images: Tensor, down: Tensor, right: Tensor, height: int, width: int) -> Tensor:
    """Cut a window out of each image, by the place of its corner."""
    device = images.device
    rows = (down[:, None] + torch.arange(height, device=device))[:, None, :, None]
    columns = (right[:, None] + torch.arange(width, device=device))[:, None, None, :]
    sample = torch.arange(images.shape[0], device=device)[:, None, None, None]
    channel = torch.arange(images.shape[1], device=device)[None, :, None, None]
    return images[sample, channel, rows, columns]


class Crop(Augmentation):
    """Pad with zeros on every side, then cut a window of the old size out at random.

    Args:
        padding: Pixels on each side.

    Raises:
        InputError: If ``padding`` is not a positive integer.
    """

    def __init__(self, padding: int = 4) -> None:
        if type(padding) is not int or padding < 1:
            raise InputError(f"`padding` must be an integer of 1 or more; got {padding!r}.")
        self.padding = padding

    def draw(self, num_samples: int, generator: torch.Generator) -> Int[Tensor, "N K"]:
        most, device = 2 * self.padding, generator.device
        return torch.randint(0, most + 1, (num_samples, 2), generator=generator, device=device)

    def apply(self, images: Float[Tensor, "N C H W"], drawn: Int[Tensor, "N K"]) -> Float[Tensor, "N C H W"]:
        padded = torch.nn.functional.pad(images, (self.padding,) * 4)
        down, right = drawn.to(images.device).unbind(1)
        return _windows(padded, down, right, *images.shape[2:])


class Flip(Augmentation):
    """Mirror half of the images, left to right."""

    def draw(self, num_samples: int, generator: torch.Generator) -> Int[Tensor, "N K"]:
        return torch.randint(0, 2, (num_samples, 1), generator=generator, device=generator.device)

    def apply(self, images: Float[Tensor, "N C H W"], drawn: Int[Tensor, "N K"]) -> Float[Tensor, "N C H W"]:
        chosen = drawn.to(images.device).bool()[:, :, None, None]
        return torch.where(chosen, images.flip(3), images)


class Window(Augmentation):
    """Cut a square of ``side`` pixels out at random."""

    def __init__(self, side: int) -> None:
        self.side = side

    def draw(self, num_samples: int, generator: torch.Generator) -> Int[Tensor, "N K"]:
        return torch.randint(0, _UNIT, (num_samples, 2), generator=generator)

    def apply(self, images: Float[Tensor, "N C H W"], drawn: Int[Tensor, "N K"]) -> Float[Tensor, "N C h w"]:
        height, width = images.shape[2:]
        room = torch.tensor([height - self.side + 1, width - self.side + 1])
        down, right = (drawn * room // _UNIT).to(images.device).unbind(1)
        return _windows(images, down, right, self.side, self.side)


class ResizedCrop(Augmentation):
    """Cut a rectangle of random area and shape out, and scale it to a square (bilinear, with antialiasing).

    As ``RandomResizedCrop`` of torchvision: of ten rectangles the first that fits is taken, else the middle.

    Args:
        side: Pixels of the square.
        area: Smallest and largest share of the image.
    """

    def __init__(self, side: int, *, area: tuple[float, float] = (0.08, 1.0)) -> None:
        if side < 1:
            raise InputError("resized-crop needs data.crop, the side of the square that the network sees.")
        two = isinstance(area, tuple | list) and len(area) == 2  # pyright: ignore[reportUnnecessaryIsInstance]
        if not two or not 0 < area[0] <= area[1] <= 1:
            raise InputError(f"`area` must be two shares, 0 < smallest <= largest <= 1; got {area!r}.")
        self.side, self.area = side, tuple(area)

    def draw(self, num_samples: int, generator: torch.Generator) -> Int[Tensor, "N K"]:
        """Draw area, shape and place of ten rectangles per image, in units of 2⁻²⁴."""
        return torch.randint(0, _UNIT, (num_samples, 4 * _TRIES), generator=generator)

    def apply(self, images: Float[Tensor, "N C H W"], drawn: Int[Tensor, "N K"]) -> Float[Tensor, "N C h w"]:
        height, width = images.shape[2:]
        cut: list[Tensor] = []
        for image, numbers in zip(images, (drawn.double() / _UNIT).tolist(), strict=True):
            tries = zip(*[iter(numbers)] * 4, strict=True)
            top, left, high, wide = self._rectangle(tries, height, width)
            cut.append(
                torch.nn.functional.interpolate(
                    image[None, :, top : top + high, left : left + wide],
                    (self.side, self.side),
                    mode="bilinear",
                    antialias=True,
                )
            )
        return torch.cat(cut)

    def _rectangle(
        self, tries: Iterable[tuple[float, ...]], height: int, width: int
    ) -> tuple[int, int, int, int]:
        least, most = self.area
        for area, shape, down, right in tries:
            size = height * width * (least + (most - least) * area)
            aspect = _SLIMMEST ** (1 - 2 * shape)
            wide, high = round(math.sqrt(size * aspect)), round(math.sqrt(size / aspect))
            if 0 < wide <= width and 0 < high <= height:
                return int(down * (height - high + 1)), int(right * (width - wide + 1)), high, wide
        high, wide = min(height, round(width / _SLIMMEST)), min(width, round(height / _SLIMMEST))
        return (height - high) // 2, (width - wide) // 2, high, wide


def build_augmentation(
    texts: Sequence[str], input_shape: tuple[int, ...], *, side: int = 0
) -> tuple[Augmentation, ...]:
    """Make the augmentations that ``texts`` describe, such as ``crop(padding=4)`` and ``flip``.

    Args:
        texts: The augmentations, in order.
        input_shape: Shape of one sample.
        side: Pixels of the squares that the network sees; where ``resized-crop`` does not make them, they are
            cut out at random. 0: the network sees whole images.

    Raises:
        InputError: If a name or setting is unknown, or the inputs are not images.

    Example:
        >>> [type(each).__name__ for each in build_augmentation(["crop(padding=2)", "flip"], (3, 32, 32))]
        ['Crop', 'Flip']
    """
    if texts and len(input_shape) != 3:
        raise InputError(f"`augment` is for images; got inputs of shape {input_shape}.")
    makers = {"crop": Crop, "flip": Flip, "resized-crop": partial(ResizedCrop, side)}
    found = tuple(build_from(text, makers, what="augmentation") for text in texts)
    if side and not any(isinstance(each, ResizedCrop) for each in found):
        found = (*found, Window(side))
    return found
