"""Images decoded when selected: from folders, or from the bytes of their files in memory."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant_lab.data.files import SPLITS, read_arrays, whole_numbers
from calibrant_lab.data.images.archives import Files, opened
from calibrant_lab.data.lazy import Digest, LazyImages
from calibrant_lab.data.table import Part, RawData

if TYPE_CHECKING:
    from PIL.Image import Image


__all__ = ["EncodedImages", "read_jpeg_archive", "read_tiny_imagenet"]

Array = np.ndarray[Any, Any]


def read_jpeg_archive(
    path: Path,
    *,
    name: str,
    class_names: Sequence[str] | None = None,
    splits: Sequence[str] = ("train", "test"),
) -> RawData:
    """Read an ``.npz`` file of concatenated JPEG bytes; an image is decoded when selected.

    Image i of the split s is ``jpeg_s[offset_s[i]:offset_s[i + 1]]``, its label ``y_s[i]``; ``splits`` are
    the names of training and test split. The file has the ``class_names`` if they are not given.
    """
    arrays = read_arrays(path)
    if class_names is None:
        if "class_names" not in arrays:
            raise InputError(f"{path.name} has no 'class_names'; it holds {', '.join(arrays)}.")
        class_names = tuple(str(each) for each in arrays["class_names"].tolist())
    found: dict[str, Any] = {}
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
        found[split] = Part(
            inputs=EncodedImages(content, ends),
            labels=torch.from_numpy(whole_numbers(labels, what=f"{path.name}: {wanted[2]!r}")),
        )
    return RawData(name=name, class_names=tuple(class_names), **found)


class EncodedImages(LazyImages):
    """Encoded images of one size: image i is ``content[offsets[i]:offsets[i + 1]]``."""

    def __init__(self, content: Array, offsets: Array) -> None:
        super().__init__(len(offsets) - 1, mode="RGB")
        # As a tensor, because processes share the memory of tensors.
        self.content, self.offsets = torch.from_numpy(content), torch.from_numpy(offsets.astype(np.int64))

    def open(self, row: int) -> Image:
        from PIL import Image

        content = self.content[int(self.offsets[row]) : int(self.offsets[row + 1])]
        try:
            return Image.open(io.BytesIO(content.numpy().tobytes()))
        except OSError as error:  # Pillow's own words name an object in memory
            raise InputError(f"{self.name(row)} cannot be decoded: its bytes are not an image.") from error

    def digest(self, digest: Digest) -> None:
        digest.update(self.content.numpy().data)
        digest.update(self.offsets.numpy().tobytes())


def read_tiny_imagenet(path: Path, *, name: str = "tiny_imagenet") -> RawData:
    """Read ``tiny-imagenet-200.zip``, its unpacked folder, or an ``.npz`` file of its JPEG bytes.

    Its validation images become the test split, as usual, since test labels were never published. The JPEG
    bytes (about 240 MB) stay in memory, and are decoded when selected.
    """
    if path.suffix == ".npz":
        return read_jpeg_archive(path, name=name, splits=("train", "val"))
    with opened(path) as files:
        wnids = files.content("wnids.txt", what="the list of classes").decode().split()
        words = dict(
            line.split("\t", 1)
            for line in files.content("words.txt", what="the names of the classes").decode().splitlines()
            if "\t" in line
        )
        number = {wnid: place for place, wnid in enumerate(sorted(wnids))}
        train = _train(files, number)
        return RawData(
            name=name,
            train=_part(files, train, "train"),
            test=_part(files, _validation(files, number), "val"),
            class_names=tuple(words.get(wnid, wnid).split(",")[0].strip() for wnid in number),
        )


def _train(files: Files, number: Mapping[str, int]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for name in files.sizes:
        parts = PurePosixPath(name).parts
        if parts[-4:-3] == ("train",) and parts[-2] == "images" and parts[-3] in number:
            found.append((name, number[parts[-3]]))
    there = {label for _, label in found}
    without = [wnid for wnid, label in number.items() if label not in there]
    if without:
        raise InputError(
            f"{files.path} has no train images of {len(without)} of the {len(number)} classes, such as "
            f"{without[0]}; get or unpack all of it again."
        )
    return found


def _validation(files: Files, number: Mapping[str, int]) -> list[tuple[str, int]]:
    table = files.content("val_annotations.txt", what="the labels of the validation images").decode()
    labels = dict(line.split("\t")[:2] for line in table.splitlines() if "\t" in line)
    found: list[tuple[str, int]] = []
    for name in files.sizes:
        parts = PurePosixPath(name).parts
        if parts[-3:-1] == ("val", "images"):
            wnid = labels.get(parts[-1])
            if wnid is None or wnid not in number:
                raise InputError(
                    f"{files.path}: val_annotations.txt names no class of wnids.txt for {parts[-1]}."
                )
            found.append((name, number[wnid]))
    return found


def _part(files: Files, listed: Sequence[tuple[str, int]], split: str) -> Part:
    if not listed:
        raise InputError(f"{files.path} has no {split} images, so a split is missing; get all of it again.")
    pieces = [files.read(name) for name, _ in listed]
    offsets = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    content = np.frombuffer(bytearray().join(pieces), dtype=np.uint8)
    return Part(inputs=EncodedImages(content, offsets), labels=torch.tensor([label for _, label in listed]))


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
    modes = (_mode(file) for files in listed.values() for file, _ in files)
    grey = all(mode in {"1", "L", "I;16", "I"} for mode in modes)
    found: dict[str, Any] = {
        split: Part(
            inputs=ImageFiles([file for file, _ in files], mode="L" if grey else "RGB"),
            labels=torch.tensor([label for _, label in files]),
        )
        for split, files in listed.items()
    }
    return RawData(name=path.name, class_names=class_names, **found)


class ImageFiles(LazyImages):
    """Images in one file each."""

    def __init__(self, files: Sequence[Path], *, mode: Literal["L", "RGB"]) -> None:
        super().__init__(len(files), mode=mode)
        self.files = tuple(files)

    def open(self, row: int) -> Image:
        return _opened(self.files[row])

    def check_sizes(self) -> None:
        """Read all image sizes from file headers, and refuse different ones."""
        sizes: list[tuple[int, int]] = []
        for row in range(len(self)):
            with self.open(row) as image:
                sizes.append(image.size)
            if sizes[-1] != sizes[0]:
                raise self.other_size(row, sizes[-1], sizes[0])

    def name(self, row: int) -> str:
        return self.files[row].name

    def digest(self, digest: Digest) -> None:
        """Add file names and sizes, since reading large sets would take hours."""
        for file in self.files:
            digest.update(f"{file.name} {file.stat().st_size}\n".encode())


def _listed(folder: Path, class_names: Sequence[str]) -> list[tuple[Path, int]]:
    files: list[tuple[Path, int]] = []
    for kind in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        if kind.name not in class_names:
            raise InputError(f"{kind} is not a class of the training images{nearest(kind.name, class_names)}")
        label = class_names.index(kind.name)
        pictures = sorted(file for file in kind.iterdir() if file.suffix.lower() in _PICTURES)
        if not pictures:
            raise InputError(f"{kind} holds no images ({', '.join(sorted(_PICTURES))}).")
        files += [(file, label) for file in pictures]
    return files


def _mode(file: Path) -> str:
    with _opened(file) as image:
        return image.mode


def _opened(file: Path) -> Image:
    from PIL import Image

    try:
        return Image.open(file)
    except (OSError, SyntaxError) as error:
        what = getattr(error, "strerror", None) or "it is not an image"
        raise InputError(f"{file} cannot be decoded ({what}); replace or remove it.") from error
