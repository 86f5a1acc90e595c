"""Images that are decoded when they are chosen, and the size that they are given then."""

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
from calibrant._math.shapes import Int
from calibrant._math.worker_processes import available_cores

if TYPE_CHECKING:
    from PIL.Image import Image
    from typing_extensions import Buffer


Array = np.ndarray[Any, Any]
Sides = tuple[int, int]
_FEW = 16  # images that are not worth a thread


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """What is done to an image before a network sees it; 0 is nothing.

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
        """Height and width of what becomes of an image of this height and width.

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
        """Scale and cut one image."""
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
    """The upper eight bits of grey images with sixteen; others as they are.

    Pillow itself would make every value above 255 white.
    """
    if not image.mode.startswith("I"):
        return image
    pixels = np.asarray(image)
    if image.mode == "I" and not (pixels.max() > 255 and pixels.min() >= 0):  # not in sixteen bits
        return image
    from PIL.Image import fromarray

    return fromarray((pixels >> 8).clip(0, 255).astype(np.uint8))


class Digest(Protocol):
    """What the hashes of ``hashlib`` do."""

    def update(self, data: Buffer, /) -> None: ...


class LazyImages(ABC):
    """Images of one size, of which the chosen ones are decoded, as uint8 ``(n, C, H, W)``.

    It stands where a tensor of images may stand: it has a shape, and rows are chosen from it by number.
    Threads decode: the decoders let other threads run meanwhile.
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
        """One image as it is stored.

        Raises:
            InputError: If it cannot be decoded.
        """

    def name(self, row: int) -> str:
        """What one image is called in messages."""
        return f"image {row}"

    @abstractmethod
    def digest(self, digest: Digest) -> None:
        """Add what the images are to a fingerprint, without decoding them."""

    def __len__(self) -> int:
        return self._count

    @property
    def mode(self) -> Literal["L", "RGB"]:
        """Grey or colour."""
        if self.geometry.channels == 0:
            return self._stored
        return "L" if self.geometry.channels == 1 else "RGB"

    @property
    def shape(self) -> torch.Size:
        """``(N, C, H, W)``, which the first image decides."""
        if self._size is None:
            with self.open(0) as image:
                self._size = self.geometry.shape(image.height, image.width)
        return torch.Size((len(self), 1 if self.mode == "L" else 3, *self._size))

    def one(self, row: int) -> Array:
        """One image, ``(C, H, W)``."""
        try:
            with self.open(row) as image:
                pixels = np.asarray(self.geometry.apply(in_eight_bits(image).convert(self.mode)))
        except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for damaged files
            if isinstance(error, InputError):
                raise
            raise InputError(f"{self.name(row)} cannot be decoded: {error}.") from error
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        if pixels.shape != self.shape[1:]:
            raise self.other_size(row, pixels.shape[:0:-1], self.shape[:1:-1])
        return pixels

    def other_size(self, row: int, size: Sequence[int], first: Sequence[int]) -> InputError:
        """The sentence about an image of another size (width, height) than the first."""
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

        workers = min(num_threads(), 1 + len(places) // _FEW)
        if workers == 1:
            work(range(len(places)))
        else:
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(work, (range(first, len(places), workers) for first in range(workers))))
        return torch.from_numpy(decoded)

    def chosen(self, rows: Tensor) -> LazyImages:
        """Some of the images, still not decoded."""
        return _Chosen(self, rows)

    def with_geometry(self, geometry: Geometry) -> LazyImages:
        """The same images, scaled and cut in another way."""
        other = copy.copy(self)
        other.geometry, other._size = geometry, None
        return other

    def resident(self, rows: Tensor, limit: int) -> Tensor | LazyImages:
        """Some of the images, decoded if they take up to ``limit`` bytes."""
        size = len(rows) * int(np.prod(self.shape[1:]))
        return self[rows] if size <= limit else self.chosen(rows)


class _Chosen(LazyImages):
    """Some rows of other lazy images."""

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
    """Images that are already decoded, to be scaled when they are chosen."""

    def __init__(self, pixels: Tensor, *, geometry: Geometry = AS_IT_IS) -> None:
        super().__init__(len(pixels), mode="L" if pixels.shape[1] == 1 else "RGB", geometry=geometry)
        self._pixels = pixels

    def open(self, row: int) -> Image:
        from PIL import Image

        return Image.fromarray(self._pixels[row].permute(1, 2, 0).squeeze(2).numpy())

    def digest(self, digest: Digest) -> None:
        digest.update(self._pixels.numpy().tobytes())


def num_threads() -> int:
    """How many threads may decode: as many as this process has cores, up to 16."""
    return min(16, available_cores())


def feed(digest: Digest, inputs: Tensor | LazyImages) -> None:
    if isinstance(inputs, LazyImages):
        digest.update(f"{inputs.geometry} ".encode())
        inputs.digest(digest)
    else:
        digest.update(inputs.cpu().contiguous().view(torch.uint8).numpy().data)


AHEAD = 3  # batches that are decoded, or being decoded, while one is used


def in_turn(inputs: Tensor | LazyImages, batches: Sequence[Int[Tensor, " B"]]) -> Generator[Tensor]:
    """The samples of each batch, in order.

    Images that are decoded when they are chosen are decoded in the background, a few batches ahead. The
    memory that this takes does not grow with the number of batches.
    """
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
    """Batches that will be asked for in this order; other rows are simply chosen."""

    def __init__(self, inputs: Tensor | LazyImages, batches: Sequence[Int[Tensor, " B"]]) -> None:
        self._inputs, self._stream = inputs, in_turn(inputs, batches)
        self._coming = deque(batches)

    def take(self, rows: Int[Tensor, " B"]) -> Tensor:
        expected = self._coming[0] if self._coming else None
        if expected is None or expected.shape != rows.shape or not bool((expected == rows).all()):
            return self._inputs[rows]
        self._coming.popleft()
        return next(self._stream)
