"""Corrupting images, a batch at a time, or as they are chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.text_form import named
from calibrant_lab.data.images.corruptions import blur, digital, noise, weather
from calibrant_lab.data.images.corruptions.constants import constants
from calibrant_lab.data.lazy import Digest, LazyImages, feed

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = np.ndarray[Any, np.dtype[np.float64]]

CORRUPTIONS: dict[str, Callable[[Pixels, Any, np.random.Generator], Pixels]] = {
    "gaussian-noise": noise.gaussian_noise,
    "shot-noise": noise.shot_noise,
    "impulse-noise": noise.impulse_noise,
    "defocus-blur": blur.defocus_blur,
    "glass-blur": blur.glass_blur,
    "motion-blur": blur.motion_blur,
    "zoom-blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": noise.brightness,
    "contrast": noise.contrast,
    "elastic-transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg-compression": digital.jpeg_compression,
}
"""By name, in the authors' order, which decides their random numbers."""

SEVERITIES = (1, 2, 3, 4, 5)


def corrupt(images: Tensor, corruption: str, *, severity: int, seed: int = 0) -> Tensor:
    """Images under one of the fifteen corruptions.

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
    """Images that are corrupted when they are chosen; see :func:`corrupt`."""

    def __init__(self, of: Tensor | LazyImages, corruption: str, *, severity: int, seed: int = 0) -> None:
        if of.ndim != 4 or of.shape[1] not in (1, 3):
            raise InputError(
                "only images with 1 or 3 channels can be corrupted; got samples of shape "
                f"{tuple(of.shape[1:])}."
            )
        if isinstance(of, Tensor) and of.is_floating_point() and not bool(((of >= 0) & (of <= 1)).all()):
            raise InputError("images of floats must lie in [0, 1] to be corrupted.")
        if severity not in SEVERITIES:
            raise InputError(f"`severity` must be 1, 2, 3, 4 or 5; got {severity!r}.")
        super().__init__(len(of), mode="L" if of.shape[1] == 1 else "RGB")
        self._of, self._function = of, named(corruption, CORRUPTIONS, "corruption")
        self._size = (of.shape[2], of.shape[3])
        self._strength = constants(corruption, severity, side=min(self._size))
        self._seed = (seed, list(CORRUPTIONS).index(corruption), severity)

    def one(self, row: int) -> np.ndarray[Any, Any]:
        """One image, ``(C, H, W)``."""
        stored = self._of.one(row) if isinstance(self._of, LazyImages) else self._of[row].cpu().numpy()
        image = stored.astype(np.float64).transpose(1, 2, 0)
        image = image / 255 if stored.dtype == np.uint8 else image
        rng = np.random.default_rng((*self._seed, row))
        changed = np.clip(self._function(image, self._strength, rng), 0, 1) * 255
        # The authors cut the fractions off; what is whole but for rounding stays.
        return np.floor(changed + 1e-6).astype(np.uint8).transpose(2, 0, 1)

    def open(self, row: int) -> Image:
        """One image."""
        from PIL import Image

        return Image.fromarray(self.one(row).transpose(1, 2, 0).squeeze())

    def name(self, row: int) -> str:
        """Its number."""
        return f"image {row}"

    def digest(self, digest: Digest) -> None:
        """The images, and what is done to them."""
        feed(digest, self._of)
        digest.update(str(self._seed).encode())
