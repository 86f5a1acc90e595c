"""Images kept as the bytes of their files (JPEG, PNG) in memory, and the ``.npz`` files that hold them so."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant_lab.data.check import whole_numbers
from calibrant_lab.data.files import read_arrays
from calibrant_lab.data.lazy import AS_IT_IS, Digest, Geometry, LazyImages
from calibrant_lab.data.table import RawData, RawPart

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["EncodedImages", "read_jpeg_archive"]

Array = np.ndarray[Any, Any]


def read_jpeg_archive(
    path: Path,
    *,
    name: str,
    class_names: Sequence[str] | None = None,
    splits: Sequence[str] = ("train", "test"),
) -> RawData:
    """Read an ``.npz`` file of JPEG bytes laid end to end; an image is decoded when it is chosen.

    Image i of the split s is ``jpeg_s[offset_s[i]:offset_s[i + 1]]``, its label ``y_s[i]``.

    Args:
        path: The file.
        name: What to call the data.
        class_names: Names of the labels; without them those that the file has as ``class_names``.
        splits: What the file calls the training and the test samples.

    Raises:
        InputError: If the file cannot be read or lacks an array.
    """
    arrays = read_arrays(path)
    if class_names is None:
        if "class_names" not in arrays:
            raise InputError(f"{path.name} has no 'class_names'; it holds {', '.join(arrays)}.")
        class_names = tuple(str(each) for each in arrays["class_names"].tolist())
    found: dict[str, RawPart] = {}
    for split, word in zip(("train", "test"), splits, strict=True):
        wanted = [f"{each}_{word}" for each in ("jpeg", "offset", "y")]
        missing = [key for key in wanted if key not in arrays]
        if missing:
            raise InputError(f"{path.name} has no {missing[0]!r}; it holds {', '.join(arrays)}.")
        content, offsets, labels = (arrays[key] for key in wanted)
        if content.dtype != np.uint8 or content.ndim != 1:
            raise InputError(f"{path.name}: {wanted[0]!r} must hold bytes; got {content.dtype}.")
        ends = whole_numbers(offsets, what=f"{path.name}: {wanted[1]!r}")
        if not len(ends) or ends[0] < 0 or ends[-1] > len(content) or bool((np.diff(ends) < 0).any()):
            raise InputError(
                f"{path.name}: {wanted[1]!r} must rise from 0 or more to at most the {len(content)} bytes."
            )
        found[split] = RawPart(
            inputs=EncodedImages(content, ends),
            labels=torch.from_numpy(whole_numbers(labels, what=f"{path.name}: {wanted[2]!r}")),
        )
    return RawData(name=name, class_names=tuple(class_names), **found)


class EncodedImages(LazyImages):
    """Images of one size as the bytes of their files: image i is ``content[offsets[i]:offsets[i + 1]]``."""

    def __init__(
        self,
        content: Array,
        offsets: Array,
        *,
        mode: Literal["L", "RGB"] = "RGB",
        geometry: Geometry = AS_IT_IS,
    ) -> None:
        super().__init__(len(offsets) - 1, mode=mode, geometry=geometry)
        # As a tensor, because processes share the memory of tensors.
        self.content, self.offsets = torch.from_numpy(content), torch.from_numpy(offsets.astype(np.int64))

    def open(self, row: int) -> Image:
        """One image."""
        from PIL import Image

        content = self.content[int(self.offsets[row]) : int(self.offsets[row + 1])]
        try:
            return Image.open(io.BytesIO(content.numpy().tobytes()))
        except OSError as error:  # Pillow's own words name an object in memory
            raise InputError(f"{self.name(row)} cannot be decoded: its bytes are not an image.") from error

    def digest(self, digest: Digest) -> None:
        """The bytes as they are."""
        digest.update(self.content.numpy().data)
        digest.update(self.offsets.numpy().tobytes())
