"""The common corruptions of Hendrycks and Dietterich (2019), on any images, decided by a seed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.text_form import named
from calibrant_lab.data.images.corruption_functions import CORRUPTIONS
from calibrant_lab.data.lazy import Digest, LazyImages, feed

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["CORRUPTIONS", "CorruptedImages", "corrupt"]

SEVERITIES = (1, 2, 3, 4, 5)


@cache
def published_constants() -> Mapping[int, Mapping[str, Any]]:
    """How strong each corruption is at severities 1 to 5, by the side of the images that it is meant for."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    wide = 244 / 224  # the authors wrote 244 for the side of 224
    elastic = [[wide * share for share in level] for level in content["224"]["elastic-transform"]]
    content["224"]["elastic-transform"] = elastic
    return {int(side): table for side, table in content.items()}


def constants(corruption: str, severity: int, *, side: int) -> Any:
    """The constants of the size that is nearest, in ratio, to the shorter side of the images.

    Example:
        >>> constants("gaussian-noise", 5, side=28), constants("gaussian-noise", 5, side=128)
        (0.1, 0.38)
    """
    known = published_constants()
    nearest = min(known, key=lambda size: max(size / side, side / size))
    return known[nearest][corruption][severity - 1]


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
