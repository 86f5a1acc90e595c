"""Images that were sent: recognised by their content, measured before they are decoded."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Upload
from calibrant_lab.data.lazy import in_eight_bits

if TYPE_CHECKING:
    from PIL.Image import Image

    from calibrant_lab.data import Geometry

_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF")  # none can hold scripts, or refer to other files
_DAMAGE = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError)


def decoded(file: Upload, limits: Limits) -> Image:
    from PIL import Image, ImageOps, UnidentifiedImageError

    if not file.content:
        raise Refusal(422, f"{file.name}: it is empty (0 bytes).")
    Image.MAX_IMAGE_PIXELS = limits.pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Any = Image.open(io.BytesIO(file.content), formats=_FORMATS)
            width, height = found.size
            if width * height > limits.pixels:
                raise _too_large(file, limits)
            turned = in_eight_bits(ImageOps.exif_transpose(found))
            return turned.convert("L" if turned.mode in {"1", "L", "I", "F", "LA"} else "RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError) as error:
        if isinstance(error, UnidentifiedImageError):
            raise Refusal(
                422, f"{file.name}: it is not an image of a kind that is read ({_kinds()})."
            ) from error
        raise _too_large(file, limits) from error
    except _DAMAGE as error:
        said = str(error).rstrip(".") or type(error).__name__
        raise Refusal(422, f"{file.name}: it is a damaged image ({said[:200]}).") from error


def as_bytes(image: Image, geometry: Geometry, channels: int) -> Tensor:
    """An image as a network's inputs before they are prepared: ``(C, H, W)``, uint8."""
    scaled = geometry.apply(image.convert("L" if channels == 1 else "RGB"))
    pixels = np.array(scaled)
    return torch.from_numpy(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1).copy())


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """A picture with values from 0 to 1, ``(H, W)`` or ``(H, W, channels)``, as PNG."""
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(np.round(pixels * 255).astype(np.uint8)).save(content, format="png")
    return content.getvalue()


def _kinds() -> str:
    return ", ".join(_FORMATS)


def _too_large(file: Upload, limits: Limits) -> Refusal:
    return Refusal(413, f"{file.name}: an image must have at most {limits.pixels:,} pixels; it has more.")
