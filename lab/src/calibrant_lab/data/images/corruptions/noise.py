"""Noise on each value, and changes of tone: what a pixel becomes depends on no other, but for their mean."""

from __future__ import annotations

from typing import Any

import numpy as np

Pixels = np.ndarray[Any, np.dtype[np.float64]]


def gaussian_noise(image: Pixels, deviation: float, rng: np.random.Generator) -> Pixels:
    """Normal noise, as of a sensor in poor light."""
    return image + rng.normal(scale=deviation, size=image.shape)


def shot_noise(image: Pixels, photons: float, rng: np.random.Generator) -> Pixels:
    """Poisson counts of so many photons for white."""
    return rng.poisson(image * photons) / photons


def impulse_noise(image: Pixels, share: float, rng: np.random.Generator) -> Pixels:
    """A share of the values becomes black or white, as with broken bits."""
    hit, white = rng.random(image.shape) < share, rng.random(image.shape) < 0.5
    return np.where(hit, white.astype(float), image)


def brightness(image: Pixels, more: float, _rng: np.random.Generator) -> Pixels:
    """The value of HSV, which is the largest channel, raised; hue and saturation stay."""
    value = image.max(axis=2, keepdims=True)
    raised = np.minimum(value + more, 1.0)
    scaled = image * np.divide(raised, value, out=np.zeros_like(value), where=value > 0)
    return np.where(value > 0, scaled, raised)


def contrast(image: Pixels, share: float, _rng: np.random.Generator) -> Pixels:
    """Deviations from each channel's mean, of which a share is left."""
    mean = image.mean(axis=(0, 1), keepdims=True)
    return (image - mean) * share + mean
