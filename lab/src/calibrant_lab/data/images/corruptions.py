"""The fifteen common corruptions of Hendrycks and Dietterich (2019), reproducible by seed."""

from __future__ import annotations

import io
import math
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.text_form import named
from calibrant_lab.data.lazy import Digest, LazyImages, feed

if TYPE_CHECKING:
    from PIL.Image import Image


Pixels = np.ndarray[Any, np.dtype[np.float64]]

_GREY = np.array([0.299, 0.587, 0.114])
_ICE = ((0.305, 0.585, 0.65), (0.787, 0.805, 0.841), (0.54, 0.599, 0.648), (0.441, 0.484, 0.528))
_ICE_DEVIATION = 0.1


def gaussian_noise(image: Pixels, deviation: float, rng: np.random.Generator) -> Pixels:
    """Add normal noise, like a sensor in poor light."""
    return image + rng.normal(scale=deviation, size=image.shape)


def shot_noise(image: Pixels, photons: float, rng: np.random.Generator) -> Pixels:
    """Replace values by Poisson counts, with this number of photons for white."""
    return rng.poisson(image * photons) / photons


def impulse_noise(image: Pixels, share: float, rng: np.random.Generator) -> Pixels:
    """Turn a share of the values black or white, like broken bits."""
    hit, white = rng.random(image.shape) < share, rng.random(image.shape) < 0.5
    return np.where(hit, white.astype(float), image)


def brightness(image: Pixels, more: float, _rng: np.random.Generator) -> Pixels:
    """Raise the HSV value, which is the largest channel; keep hue and saturation."""
    value = image.max(axis=2, keepdims=True)
    raised = np.minimum(value + more, 1.0)
    scaled = image * np.divide(raised, value, out=np.zeros_like(value), where=value > 0)
    return np.where(value > 0, scaled, raised)


def contrast(image: Pixels, share: float, _rng: np.random.Generator) -> Pixels:
    """Shrink deviations from each channel's mean to a share."""
    mean = image.mean(axis=(0, 1), keepdims=True)
    return (image - mean) * share + mean


def defocus_blur(image: Pixels, disk: tuple[float, float], _rng: np.random.Generator) -> Pixels:
    """Blur each point to a disk of this radius with a smoothed rim."""
    from scipy.ndimage import convolve

    return convolve(image, _disk(*disk)[:, :, None], mode="mirror")


def _disk(radius: float, smoothing: float) -> Pixels:
    from scipy.ndimage import convolve1d

    reach, half = (8, 1) if radius <= 8 else (int(radius), 2)
    along = np.arange(-reach, reach + 1)
    disk = (along[:, None] ** 2 + along**2 <= radius**2).astype(float)
    rim = np.exp(-(np.arange(-half, half + 1) ** 2) / (2 * smoothing**2))
    for axis in (0, 1):
        disk = convolve1d(disk, rim / rim.sum(), axis=axis, mode="mirror")
    return disk / disk.sum()


def glass_blur(image: Pixels, glass: tuple[float, int, int], rng: np.random.Generator) -> Pixels:
    """Copy nearby pixels between two slight blurs, as the authors' code does (meant to exchange them)."""
    sigma, reach, rounds = glass
    soft = np.floor(smoothed(image, sigma) * 255) / 255
    height, width, channels = image.shape
    source = list(range(height * width))
    rows, columns = range(height - reach, reach, -1), range(width - reach, reach, -1)
    for _ in range(rounds):
        moves = rng.integers(-reach, reach, (len(rows) * len(columns), 2))
        offsets = iter((moves[:, 0] + width * moves[:, 1]).tolist())
        for row in rows:
            for place in range(row * width + columns.start, row * width + columns.stop, -1):
                source[place] = source[place + next(offsets)]
    return smoothed(soft.reshape(-1, channels)[source].reshape(image.shape), sigma)


def motion_blur(image: Pixels, motion: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """Blur along a line up to 45 degrees from the horizontal."""
    return moved(image, *motion, angle=rng.uniform(-45, 45))


def moved(image: Pixels, radius: float, sigma: float, *, angle: float) -> Pixels:
    """Average shifts along a line by half a normal density, like the authors' ImageMagick up to rounding."""
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    rows, columns = np.arange(image.shape[0]), np.arange(image.shape[1])
    down, right = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    blurred = np.zeros_like(image)
    for step, weight in zip(steps.tolist(), weights.tolist(), strict=True):
        from_row = np.clip(rows + math.ceil(step * down - 0.5), 0, len(rows) - 1)
        from_column = np.clip(columns + math.ceil(step * right - 0.5), 0, len(columns) - 1)
        blurred += weight * image[from_row[:, None], from_column]
    return blurred


def zoom_blur(image: Pixels, zoom: tuple[float, float], _rng: np.random.Generator) -> Pixels:
    """Average the image and increasing enlargements of its middle."""
    end, step = zoom
    factors = np.arange(1, end, step)  # rounding adds the end to two of the ranges, as it did to theirs
    layers = [image, *(zoomed(image, factor) for factor in factors.tolist())]
    return np.stack(layers).mean(axis=0)


def zoomed(image: Pixels, factor: float) -> Pixels:
    from scipy.ndimage import zoom

    height, width = image.shape[:2]
    if factor == 1:
        return image
    part = [math.ceil(side / factor) for side in (height, width)]
    top, left = (height - part[0]) // 2, (width - part[1]) // 2
    large = zoom(image[top : top + part[0], left : left + part[1]], (factor, factor, 1), order=1)
    over = [max(0, large.shape[axis] - image.shape[axis]) // 2 for axis in (0, 1)]
    return np.asarray(large[over[0] : over[0] + height, over[1] : over[1] + width], dtype=np.float64)


def smoothed(image: Pixels, sigma: float) -> Pixels:
    from scipy.ndimage import gaussian_filter

    return gaussian_filter(image, (sigma, sigma, 0), mode="nearest", truncate=4)


def snow(image: Pixels, flakes: tuple[float, ...], rng: np.random.Generator) -> Pixels:
    """Make the image paler, under falling flakes."""
    mean, deviation, zoom, threshold, radius, sigma, share = flakes
    layer = zoomed(rng.normal(mean, deviation, (*image.shape[:2], 1)), zoom)
    layer = np.clip(np.where(layer < threshold, 0, layer), 0, 1)
    layer = moved(np.floor(layer * 255) / 255, radius, sigma, angle=rng.uniform(-135, -45))
    grey = image @ _GREY[:, None] if image.shape[2] == 3 else image
    pale = share * image + (1 - share) * np.maximum(image, grey * 1.5 + 0.5)
    return pale + layer + np.rot90(layer, 2)


def frost(image: Pixels, weights: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """Cover with ice drawn as rough ridges, with the colour statistics of the authors' photographs."""
    ridges = 1 - np.abs(2 * fractal(image.shape[:2], 2.0, rng) - 1)
    ridges = (ridges - ridges.mean()) / max(float(ridges.std()), 1e-9)
    colour = np.array(_ICE[int(rng.integers(len(_ICE)))])
    if image.shape[2] == 1:
        colour = colour @ _GREY[:, None]
    ice = np.clip(colour + _ICE_DEVIATION * ridges[:, :, None], 0, 1)
    return weights[0] * image + weights[1] * ice


def fog(image: Pixels, thickness: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """Add a rough layer of white, and restore the brightest value."""
    weight, decay = thickness
    brightest = image.max()
    layer = fractal(image.shape[:2], decay, rng)[:, :, None]
    return (image + weight * layer) * brightest / (brightest + weight)


def fractal(shape: tuple[int, ...], decay: float, rng: np.random.Generator) -> Pixels:
    """Return a rough surface in [0, 1] by midpoint displacement (diamond and square, periodic)."""
    size = 1 << (max(shape) - 1).bit_length()
    heights = np.zeros((size, size))
    step, rough = size, 100.0
    while step >= 2:
        half = step // 2
        corners = heights[::step, ::step]
        beside = corners + np.roll(corners, -1, axis=0)
        heights[half::step, half::step] = _displaced(beside + np.roll(beside, -1, axis=1), rough, rng)
        middles = heights[half::step, half::step]
        above = middles + np.roll(middles, 1, axis=0) + corners + np.roll(corners, -1, axis=1)
        heights[::step, half::step] = _displaced(above, rough, rng)
        left = middles + np.roll(middles, 1, axis=1) + corners + np.roll(corners, -1, axis=0)
        heights[half::step, ::step] = _displaced(left, rough, rng)
        step, rough = half, rough / decay
    heights -= heights.min()
    return (heights / heights.max())[: shape[0], : shape[1]]


def _displaced(sums: Pixels, rough: float, rng: np.random.Generator) -> Pixels:
    return sums / 4 + rough * rng.uniform(-rough, rough, sums.shape)


def elastic_transform(image: Pixels, shares: tuple[float, float, float], rng: np.random.Generator) -> Pixels:
    """Displace three corners of the image, then every pixel in accordance with its neighbours."""
    from scipy.ndimage import affine_transform, gaussian_filter, map_coordinates

    height, width = image.shape[:2]
    side = min(height, width)
    strength, sigma, corner = (share * side for share in shares)
    middle, reach = np.array([width, height]) // 2, side // 3
    before = middle + reach * np.array([[1, 1], [1, -1], [-1, -1]])  # (x, y), as the authors have them
    after = before + rng.uniform(-corner, corner, (3, 2))
    # Where each point of the result comes from: an affine map of (x, y, 1), solved from the three corners.
    origin = np.linalg.solve(np.column_stack([after, np.ones(3)]), before.astype(float)).T
    matrix = origin[::-1, 1::-1]  # in (row, column)
    warped = [
        affine_transform(channel, matrix, offset=origin[::-1, 2], order=1, mode="mirror")
        for channel in np.moveaxis(image, 2, 0)
    ]
    rows, columns = np.mgrid[:height, :width].astype(float)
    for grid in (columns, rows):
        noise = rng.uniform(-1, 1, (height, width))
        grid += strength * gaussian_filter(noise, sigma, mode="reflect", truncate=3)
    moved_to = [map_coordinates(channel, [rows, columns], order=1, mode="reflect") for channel in warped]
    return np.stack(moved_to, axis=2)


def pixelate(image: Pixels, share: float, _rng: np.random.Generator) -> Pixels:
    from PIL import Image

    pixels = _pillow(image)
    width, height = pixels.size
    small = pixels.resize((max(1, int(width * share)), max(1, int(height * share))), Image.Resampling.BOX)
    return _floats(small.resize((width, height), Image.Resampling.BOX))


def jpeg_compression(image: Pixels, quality: int, _rng: np.random.Generator) -> Pixels:
    from PIL import Image

    file = io.BytesIO()
    _pillow(image).save(file, "JPEG", quality=quality)
    with Image.open(file) as saved:
        return _floats(saved)


def _pillow(image: Pixels) -> Any:
    from PIL import Image

    values = np.rint(image * 255).astype(np.uint8)
    return Image.fromarray(values[:, :, 0] if values.shape[2] == 1 else values)


def _floats(image: Any) -> Pixels:
    values = np.asarray(image) / 255
    return values[:, :, None] if values.ndim == 2 else values


CORRUPTIONS: dict[str, Callable[[Pixels, Any, np.random.Generator], Pixels]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(gaussian_noise, shot_noise, impulse_noise),
        *(defocus_blur, glass_blur, motion_blur, zoom_blur),
        *(snow, frost, fog, brightness),
        *(contrast, elastic_transform, pixelate, jpeg_compression),
    )
}
"""Corruptions by name, in the authors' order, which decides their random numbers."""


__all__ = ["CORRUPTIONS", "CorruptedImages", "corrupt"]


@cache
def published_constants() -> Mapping[int, Mapping[str, Any]]:
    """Return each corruption's strength at severities 1 to 5, by image side."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    wide = 244 / 224  # the authors wrote 244 for the side of 224
    elastic = [[wide * share for share in level] for level in content["224"]["elastic-transform"]]
    content["224"]["elastic-transform"] = elastic
    return {int(side): table for side, table in content.items()}


def constants(corruption: str, severity: int, *, side: int) -> Any:
    """Return the constants for the size nearest, in ratio, to the shorter side of the images."""
    known = published_constants()
    nearest = min(known, key=lambda size: max(size / side, side / size))
    return known[nearest][corruption][severity - 1]


def corrupt(images: Tensor, corruption: str, *, severity: int, seed: int = 0) -> Tensor:
    """Apply one of the fifteen corruptions to images.

    The strength is the published one for 32, 64 or 224 pixels, whichever is nearest. The ice of ``frost`` is
    drawn, with the colours of the authors' photographs, and random numbers are others than theirs. What
    happens to an image depends on its number, the corruption, the severity and the seed alone.

    Args:
        images: ``(N, C, H, W)`` with one or three channels, bytes or floats in [0, 1].
        corruption: A name of ``CORRUPTIONS``, such as ``gaussian-noise``.
        severity: 1 to 5.
        seed: Decides the random numbers.

    Returns:
        As many images, bytes.

    Raises:
        InputError: If the images, the name or the severity are not such.

    References:
        Hendrycks and Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and
        Perturbations", ICLR 2019.

    Example:
        >>> import torch
        >>> grey = torch.full((1, 1, 4, 4), 100, dtype=torch.uint8)
        >>> corrupt(grey, "brightness", severity=5)[0, 0, 0]
        tensor([176, 176, 176, 176], dtype=torch.uint8)
    """
    return CorruptedImages(images, corruption, severity=severity, seed=seed)[:]


class CorruptedImages(LazyImages):
    """Images that are corrupted when selected; see :func:`corrupt`."""

    def __init__(self, of: Tensor | LazyImages, corruption: str, *, severity: int, seed: int = 0) -> None:
        if of.ndim != 4 or of.shape[1] not in (1, 3):
            raise InputError(
                "only images with 1 or 3 channels can be corrupted; got samples of shape "
                f"{tuple(of.shape[1:])}."
            )
        if isinstance(of, Tensor) and of.is_floating_point() and not bool(((of >= 0) & (of <= 1)).all()):
            raise InputError("images of floats must be between 0 and 1 to be corrupted.")
        if severity not in range(1, 6):
            raise InputError(f"`severity` must be 1, 2, 3, 4 or 5; got {severity!r}.")
        super().__init__(len(of), mode="L" if of.shape[1] == 1 else "RGB")
        self._of, self._function = of, named(corruption, CORRUPTIONS, "corruption")
        self._size = (of.shape[2], of.shape[3])
        self._strength = constants(corruption, severity, side=min(self._size))
        self._seed = (seed, list(CORRUPTIONS).index(corruption), severity)

    def one(self, row: int) -> np.ndarray[Any, Any]:
        stored = self._of.one(row) if isinstance(self._of, LazyImages) else self._of[row].cpu().numpy()
        image = stored.astype(np.float64).transpose(1, 2, 0)
        image = image / 255 if stored.dtype == np.uint8 else image
        rng = np.random.default_rng((*self._seed, row))
        changed = np.clip(self._function(image, self._strength, rng), 0, 1) * 255
        # The authors cut the fractions off; what is whole but for rounding stays.
        return np.floor(changed + 1e-6).astype(np.uint8).transpose(2, 0, 1)

    def open(self, row: int) -> Image:
        from PIL import Image

        return Image.fromarray(self.one(row).transpose(1, 2, 0).squeeze())

    def digest(self, digest: Digest) -> None:
        feed(digest, self._of)
        digest.update(str(self._seed).encode())
