"""Images that are decoded, scaled and cropped when selected."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.machine import available_cores
from calibrant._math.shapes import Int

if TYPE_CHECKING:
    from PIL.Image import Image
    from typing_extensions import Buffer


Array = np.ndarray[Any, Any]
Sides = tuple[int, int]
_FEW, _MOST_THREADS = 16, 16  # so many images are not worth a thread


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Scaling and cropping of images for the network; 0 is none.

    In this order: the shorter side is scaled to ``resize`` pixels, and the middle square of ``crop`` pixels
    is cut out. Then the whole is scaled to ``size`` × ``size`` pixels, with 1 (grey) or 3 ``channels``.
    Scaling is bilinear, with antialiasing.
    """

    size: int = 0
    resize: int = 0
    crop: int = 0
    channels: int = 0

    def __post_init__(self) -> None:
        for name in ("size", "resize", "crop"):
            if getattr(self, name) < 0:
                raise InputError(f"`{name}` must be 0 or more; got {getattr(self, name)}.")
        if self.channels not in {0, 1, 3}:
            raise InputError(f"`channels` must be 1, 3, or 0 for those that there are; got {self.channels}.")

    def __bool__(self) -> bool:
        return any((self.size, self.resize, self.crop, self.channels))

    def shape(self, height: int, width: int) -> Sides:
        """Return an image's height and width after scaling and cropping.

        Raises:
            InputError: If it is smaller than the square to cut out.
        """
        if self.resize:
            shorter = min(height, width)
            height = max(1, round(height * self.resize / shorter))
            width = max(1, round(width * self.resize / shorter))
        if self.crop:
            if min(height, width) < self.crop:
                raise InputError(
                    f"`crop` must be at most the shorter side of the images, {min(height, width)}; "
                    f"got {self.crop}."
                )
            height = width = self.crop
        return (self.size, self.size) if self.size else (height, width)

    def apply(self, image: Image) -> Image:
        """Scale and crop one image."""
        from PIL.Image import Resampling

        width, height = image.size
        target = self.shape(height, width)
        if self.resize:
            height, width = Geometry(resize=self.resize).shape(height, width)
            image = image.resize((width, height), Resampling.BILINEAR)
        if self.crop:
            left, top = (image.width - self.crop) // 2, (image.height - self.crop) // 2
            image = image.crop((left, top, left + self.crop, top + self.crop))
        if self.size:
            image = image.resize((target[1], target[0]), Resampling.BILINEAR)
        return image


AS_IT_IS = Geometry()


def in_eight_bits(image: Image) -> Image:
    """Reduce 16-bit grey images to 8 bits (Pillow would make values above 255 white); keep others."""
    if not image.mode.startswith("I"):
        return image
    pixels = np.asarray(image)
    if image.mode == "I" and not (pixels.max() > 255 and pixels.min() >= 0):  # not in sixteen bits
        return image
    from PIL.Image import fromarray

    return fromarray((pixels >> 8).clip(0, 255).astype(np.uint8))


class Digest(Protocol):
    """Interface of ``hashlib``'s hashes."""

    def update(self, data: Buffer, /) -> None: ...


class LazyImages(ABC):
    """Images of one size, decoded when selected, as uint8 ``(n, C, H, W)``.

    It replaces a tensor of images: it has a shape, and rows are selected by number. Threads decode, as the
    decoders release the interpreter lock.
    """

    dtype = torch.uint8
    ndim = 4

    def __init__(self, count: int, *, mode: Literal["L", "RGB"], geometry: Geometry = AS_IT_IS) -> None:
        self._count = count
        self._stored: Literal["L", "RGB"] = mode
        self.geometry = geometry
        self._size: Sides | None = None

    @abstractmethod
    def open(self, row: int) -> Image:
        """Open one stored image.

        Raises:
            InputError: If it cannot be decoded.
        """

    def name(self, row: int) -> str:
        """Return an image's name in messages."""
        return f"image {row}"

    @abstractmethod
    def digest(self, digest: Digest) -> None:
        """Add the images to a fingerprint, without decoding them."""

    def __len__(self) -> int:
        return self._count

    @property
    def mode(self) -> Literal["L", "RGB"]:
        if self.geometry.channels == 0:
            return self._stored
        return "L" if self.geometry.channels == 1 else "RGB"

    @property
    def shape(self) -> torch.Size:
        """Shape ``(N, C, H, W)``, from the first image."""
        if self._size is None:
            with self.open(0) as image:
                self._size = self.geometry.shape(image.height, image.width)
        return torch.Size((len(self), 1 if self.mode == "L" else 3, *self._size))

    def one(self, row: int) -> Array:
        """Return one image ``(C, H, W)``."""
        try:
            with self.open(row) as image:
                pixels = np.asarray(self.geometry.apply(in_eight_bits(image).convert(self.mode)))
        except (OSError, SyntaxError, ValueError) as error:  # Pillow's errors for damaged files
            if isinstance(error, InputError):
                raise
            raise InputError(f"{self.name(row)} cannot be decoded: {error}.") from error
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        if pixels.shape != self.shape[1:]:
            raise self.other_size(row, pixels.shape[:0:-1], self.shape[:1:-1])
        return pixels

    def other_size(self, row: int, size: Sequence[int], first: Sequence[int]) -> InputError:
        """Return the error for an image with another size (width, height) than the first."""
        return InputError(
            f"the images must all have the same size: {self.name(0)} has {first[0]} × {first[1]} pixels, "
            f"{self.name(row)} has {size[0]} × {size[1]}; scale them with data.size (or --size)."
        )

    def __getitem__(self, rows: Tensor | slice | int) -> Tensor:
        if isinstance(rows, int):
            return self[torch.tensor([rows])][0]
        places = range(len(self))[rows] if isinstance(rows, slice) else rows.tolist()
        decoded = np.empty((len(places), *self.shape[1:]), dtype=np.uint8)

        def work(pieces: Sequence[int]) -> None:
            for place in pieces:
                decoded[place] = self.one(places[place])

        workers = min(_MOST_THREADS, available_cores(), 1 + len(places) // _FEW)
        if workers == 1:
            work(range(len(places)))
        else:
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(work, (range(first, len(places), workers) for first in range(workers))))
        return torch.from_numpy(decoded)

    def chosen(self, rows: Tensor) -> LazyImages:
        """Select images without decoding them."""
        return _Chosen(self, rows)

    def with_geometry(self, geometry: Geometry) -> LazyImages:
        """Return the images with other scaling and cropping."""
        other = copy.copy(self)
        other.geometry, other._size = geometry, None
        return other

    def resident(self, rows: Tensor, limit: int) -> Tensor | LazyImages:
        """Select images, and decode them if they take up to ``limit`` bytes."""
        size = len(rows) * int(np.prod(self.shape[1:]))
        return self[rows] if size <= limit else self.chosen(rows)


class _Chosen(LazyImages):
    def __init__(self, of: LazyImages, rows: Tensor) -> None:
        super().__init__(len(rows), mode=of.mode, geometry=of.geometry)
        self._of, self._rows = of, rows
        self._size = (of.shape[2], of.shape[3])

    def open(self, row: int) -> Image:
        return self._of.open(int(self._rows[row]))

    def one(self, row: int) -> Array:
        return self._of.one(int(self._rows[row]))

    def name(self, row: int) -> str:
        return self._of.name(int(self._rows[row]))

    def digest(self, digest: Digest) -> None:
        self._of.digest(digest)
        digest.update(self._rows.numpy().tobytes())


class StoredImages(LazyImages):
    """Decoded images, scaled when selected."""

    def __init__(self, pixels: Tensor, *, geometry: Geometry = AS_IT_IS) -> None:
        super().__init__(len(pixels), mode="L" if pixels.shape[1] == 1 else "RGB", geometry=geometry)
        self._pixels = pixels

    def open(self, row: int) -> Image:
        from PIL import Image

        return Image.fromarray(self._pixels[row].permute(1, 2, 0).squeeze(2).numpy())

    def digest(self, digest: Digest) -> None:
        digest.update(self._pixels.numpy().tobytes())


def feed(digest: Digest, inputs: Tensor | LazyImages) -> None:
    if isinstance(inputs, LazyImages):
        digest.update(f"{inputs.geometry} ".encode())
        inputs.digest(digest)
    else:
        digest.update(inputs.cpu().contiguous().view(torch.uint8).numpy().data)


AHEAD = 3  # batches that are decoded, or being decoded, while one is used


def in_turn(inputs: Tensor | LazyImages, batches: Sequence[Int[Tensor, " B"]]) -> Generator[Tensor]:
    """Yield each batch's samples in order; lazy images are decoded a few batches ahead in threads."""
    if not isinstance(inputs, LazyImages):
        for rows in batches:
            yield inputs[rows.to(inputs.device)]
        return
    coming = iter(batches)
    pool = ThreadPoolExecutor(1)  # which decodes each batch by several threads of its own
    waiting: deque[Future[Tensor]] = deque()

    def order_one() -> None:
        rows = next(coming, None)
        if rows is not None:
            waiting.append(pool.submit(inputs.__getitem__, rows.cpu()))

    try:
        for _ in range(AHEAD):
            order_one()
        while waiting:
            batch = waiting.popleft().result()
            order_one()
            yield batch
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Plan:
    """Planned order of batches; other rows are selected directly."""

    def __init__(self, inputs: Tensor | LazyImages, batches: Sequence[Int[Tensor, " B"]]) -> None:
        self._inputs, self._stream = inputs, in_turn(inputs, batches)
        self._coming = deque(batches)

    def take(self, rows: Int[Tensor, " B"]) -> Tensor:
        expected = self._coming[0] if self._coming else None
        if expected is None or expected.shape != rows.shape or not bool((expected == rows).all()):
            return self._inputs[rows]
        self._coming.popleft()
        return next(self._stream)
