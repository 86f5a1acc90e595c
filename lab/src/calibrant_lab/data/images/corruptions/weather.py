"""Snow, frost and fog."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant_lab.data.images.corruptions.blur import moved, zoomed

Pixels = np.ndarray[Any, np.dtype[np.float64]]

_GREY = np.array([0.299, 0.587, 0.114])
_ICE = ((0.305, 0.585, 0.65), (0.787, 0.805, 0.841), (0.54, 0.599, 0.648), (0.441, 0.484, 0.528))
_ICE_DEVIATION = 0.1


def snow(image: Pixels, flakes: tuple[float, ...], rng: np.random.Generator) -> Pixels:
    """A paler image under falling flakes."""
    mean, deviation, zoom, threshold, radius, sigma, share = flakes
    layer = zoomed(rng.normal(mean, deviation, (*image.shape[:2], 1)), zoom)
    layer = np.clip(np.where(layer < threshold, 0, layer), 0, 1)
    layer = moved(np.floor(layer * 255) / 255, radius, sigma, angle=rng.uniform(-135, -45))
    grey = image @ _GREY[:, None] if image.shape[2] == 3 else image
    pale = share * image + (1 - share) * np.maximum(image, grey * 1.5 + 0.5)
    return pale + layer + np.rot90(layer, 2)


def frost(image: Pixels, weights: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """Ice over the image.

    The authors lay photographs of frosted panes over it, which do not come with this library. Here the ice
    is drawn: ridges of a rough surface, with the mean colours and the deviation of those photographs.
    """
    ridges = 1 - np.abs(2 * fractal(image.shape[:2], 2.0, rng) - 1)
    ridges = (ridges - ridges.mean()) / max(float(ridges.std()), 1e-9)
    colour = np.array(_ICE[int(rng.integers(len(_ICE)))])
    if image.shape[2] == 1:
        colour = colour @ _GREY[:, None]
    ice = np.clip(colour + _ICE_DEVIATION * ridges[:, :, None], 0, 1)
    return weights[0] * image + weights[1] * ice


def fog(image: Pixels, thickness: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """A rough layer of white, after which the brightest value is what it was."""
    weight, decay = thickness
    brightest = image.max()
    layer = fractal(image.shape[:2], decay, rng)[:, :, None]
    return (image + weight * layer) * brightest / (brightest + weight)


def fractal(shape: tuple[int, ...], decay: float, rng: np.random.Generator) -> Pixels:
    """A rough surface between 0 and 1 by midpoint displacement (diamond and square, periodic)."""
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
    """Means of four, moved at random."""
    return sums / 4 + rough * rng.uniform(-rough, rough, sums.shape)
