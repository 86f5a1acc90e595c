"""Blurs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, np.dtype[np.float64]]


def defocus_blur(image: Pixels, disk: tuple[float, float], _rng: np.random.Generator) -> Pixels:
    """Each point becomes a disk of this radius, whose rim is smoothed."""
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
    """Pixels take the place of near ones, between two slight blurs.

    The authors meant to exchange pixels; what their code does to coloured images, and this one to all, is to
    copy them.
    """
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
    """Moved by up to 45 degrees from the horizontal."""
    return moved(image, *motion, angle=rng.uniform(-45, 45))


def moved(image: Pixels, radius: float, sigma: float, *, angle: float) -> Pixels:
    """The image and its shifts along a line, with the weights of half a normal density.

    The authors let ImageMagick do this; it gives the same but for the rounding to bytes.
    """
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
    """The mean of the image and its middle parts, ever more enlarged."""
    end, step = zoom
    factors = np.arange(
        1, end, step
    )  # rounding adds the end itself to two of the ranges, as it did to theirs
    layers = [image, *(zoomed(image, factor) for factor in factors.tolist())]
    return np.stack(layers).mean(axis=0)


def zoomed(image: Pixels, factor: float) -> Pixels:
    """The middle of the image, enlarged to its size (bilinear)."""
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
    """By a normal kernel."""
    from scipy.ndimage import gaussian_filter

    return gaussian_filter(image, (sigma, sigma, 0), mode="nearest", truncate=4)
