"""Elastic distortion, large pixels and compression."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, np.dtype[np.float64]]


def elastic_transform(image: Pixels, shares: tuple[float, float, float], rng: np.random.Generator) -> Pixels:
    """Three corners of the image are displaced, then every pixel, by as much as its neighbours are."""
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
    warped = np.stack(
        [
            affine_transform(channel, matrix, offset=origin[::-1, 2], order=1, mode="mirror")
            for channel in np.moveaxis(image, 2, 0)
        ],
        axis=2,
    )
    rows, columns = np.mgrid[:height, :width].astype(float)
    for grid in (columns, rows):
        noise = rng.uniform(-1, 1, (height, width))
        grid += strength * gaussian_filter(noise, sigma, mode="reflect", truncate=3)
    channels = [
        map_coordinates(warped[:, :, c], [rows, columns], order=1, mode="reflect")
        for c in range(image.shape[2])
    ]
    return np.stack(channels, axis=2)


def pixelate(image: Pixels, share: float, _rng: np.random.Generator) -> Pixels:
    """Scaled down and up again by boxes."""
    from PIL import Image

    pixels = _pillow(image)
    width, height = pixels.size
    small = pixels.resize((max(1, int(width * share)), max(1, int(height * share))), Image.Resampling.BOX)
    return _floats(small.resize((width, height), Image.Resampling.BOX))


def jpeg_compression(image: Pixels, quality: int, _rng: np.random.Generator) -> Pixels:
    """Saved as JPEG and read again."""
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
