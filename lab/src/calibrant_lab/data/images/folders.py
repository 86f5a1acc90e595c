"""Folders with one folder of images per class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant_lab.data.files import SPLITS
from calibrant_lab.data.lazy import Digest, LazyImages
from calibrant_lab.data.table import Part, RawData

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ImageFiles", "is_picture", "read_folder"]

_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"})


def read_folder(path: Path) -> RawData:
    """Read ``train/CLASS/*.png`` (with ``val`` and ``test`` alongside), or ``CLASS/*.png``."""
    splits = {
        split: path / word for split, words in SPLITS.items() for word in words if (path / word).is_dir()
    } or {"train": path}
    if "train" not in splits:
        raise InputError(f"{path} has folders of splits but none called train.")
    class_names = tuple(sorted(folder.name for folder in splits["train"].iterdir() if folder.is_dir()))
    if len(class_names) < 2:
        raise InputError(f"{splits['train']} must hold a folder of images for each of at least two classes.")
    listed = {split: _listed(folder, class_names) for split, folder in splits.items()}
    grey = all(_is_grey(file) for files in listed.values() for file, _ in files)
    found: dict[str, Any] = {
        split: Part(
            inputs=ImageFiles([file for file, _ in files], mode="L" if grey else "RGB"),
            labels=torch.tensor([label for _, label in files]),
        )
        for split, files in listed.items()
    }
    return RawData(name=path.name, class_names=class_names, **found)


class ImageFiles(LazyImages):
    """Images in files of their own."""

    def __init__(self, files: Sequence[Path], *, mode: Literal["L", "RGB"]) -> None:
        super().__init__(len(files), mode=mode)
        self.files = tuple(files)

    def open(self, row: int) -> Image:
        from PIL import Image

        try:
            return Image.open(self.files[row])
        except (OSError, SyntaxError) as error:
            raise _undecodable(self.files[row], error) from error

    def check_sizes(self) -> None:
        """Read the sizes of all images from their heads, and refuse different ones."""
        sizes: list[tuple[int, int]] = []
        for row in range(len(self)):
            with self.open(row) as image:
                sizes.append(image.size)
            if sizes[-1] != sizes[0]:
                raise self.other_size(row, sizes[-1], sizes[0])

    def name(self, row: int) -> str:
        return self.files[row].name

    def digest(self, digest: Digest) -> None:
        """The files' names and sizes: reading large sets for this would take hours."""
        for file in self.files:
            digest.update(f"{file.name} {file.stat().st_size}\n".encode())


def is_picture(file: Path) -> bool:
    return file.suffix.lower() in _PICTURES


def _listed(folder: Path, class_names: Sequence[str]) -> list[tuple[Path, int]]:
    files: list[tuple[Path, int]] = []
    for kind in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        if kind.name not in class_names:
            raise InputError(f"{kind} is not a class of the training images{nearest(kind.name, class_names)}")
        label = class_names.index(kind.name)
        pictures = sorted(file for file in kind.iterdir() if is_picture(file))
        if not pictures:
            raise InputError(f"{kind} holds no images ({', '.join(sorted(_PICTURES))}).")
        files += [(file, label) for file in pictures]
    return files


def _is_grey(file: Path) -> bool:
    from PIL import Image

    try:
        with Image.open(file) as image:
            return image.mode in {"1", "L", "I;16", "I"}
    except (OSError, SyntaxError) as error:
        raise _undecodable(file, error) from error


def _undecodable(file: Path, error: Exception) -> InputError:
    what = getattr(error, "strerror", None) or "it is not an image"
    return InputError(f"{file} cannot be decoded ({what}); replace or remove it.")
