"""MNIST, Fashion-MNIST and SVHN (cropped digits) from the files that their authors publish."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant_lab.data.files import read_npz, whole_numbers
from calibrant_lab.data.images.archives import LARGEST, damaged
from calibrant_lab.data.table import Part, RawData

__all__ = ["read_idx", "read_svhn"]


def read_svhn(path: Path, *, name: str = "svhn", extra: bool = False) -> RawData:
    """Read SVHN's ``.mat`` files from a folder, with ``extra`` all three; the label 10 is the digit 0."""
    train, test = (_samples(path / f"{split}_32x32.mat") for split in ("train", "test"))
    if extra:
        more = _samples(path / "extra_32x32.mat")
        train = tuple(torch.cat(each) for each in zip(train, more, strict=True))
    return RawData(
        name=name,
        train=Part(inputs=train[0], labels=train[1]),
        test=Part(inputs=test[0], labels=test[1]),
        class_names=tuple("0123456789"),
    )


def _samples(file: Path) -> tuple[torch.Tensor, ...]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    if not file.is_file():
        raise InputError(f"{file.parent} has no {file.name}, so a split of SVHN is missing; get it too.")
    try:
        content = loadmat(file, variable_names=["X", "y"])
    except (*DAMAGE, NotImplementedError, MatReadError) as error:
        raise damaged(file, error) from error
    pixels, labels = content.get("X"), content.get("y")
    form = (getattr(pixels, "dtype", None), np.shape(pixels)[:3], np.ndim(pixels))
    if form != (np.uint8, (32, 32, 3), 4):
        raise InputError(f"{file.name} must hold images X of shape (32, 32, 3, N) in bytes.")
    if not isinstance(labels, np.ndarray) or labels.size != pixels.shape[3]:
        raise InputError(f"{file.name} must hold one label y for each of the {pixels.shape[3]} images.")
    numbers = whole_numbers(labels.reshape(-1), what=f"{file.name}: y")
    if not bool(((numbers >= 1) & (numbers <= 10)).all()):
        raise InputError(f"{file.name}: labels must lie in 1 … 10, 10 being the digit 0.")
    inputs = torch.from_numpy(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)))
    return inputs, torch.from_numpy(numbers % 10)


_SPLITS = {"train": "train", "test": "t10k"}


def read_idx(path: Path, *, name: str | None = None, class_names: Sequence[str] | None = None) -> RawData:
    """Read ``train-images-idx3-ubyte`` and its like (``.gz`` or not) from a folder, or an ``.npz`` file."""
    if path.suffix == ".npz":
        return read_npz(path, name=name, class_names=class_names)
    parts: dict[str, Any] = {}
    for split, word in _SPLITS.items():
        pixels = _array(_file(path, f"{word}-images", 3), 3)
        labels = _array(_file(path, f"{word}-labels", 1), 1)
        if len(pixels) != len(labels) or not len(labels):
            raise InputError(
                f"{path}: the {word} files must hold as many labels as images; "
                f"got {len(labels)} and {len(pixels)}."
            )
        parts[split] = Part(
            inputs=torch.from_numpy(pixels.copy())[:, None], labels=torch.from_numpy(labels.astype(np.int64))
        )
    highest = max(int(part.labels.max()) for part in parts.values())
    names = tuple(class_names or (str(number) for number in range(highest + 1)))
    return RawData(name=name or path.name, class_names=names, **parts)


def _file(path: Path, stem: str, rank: int) -> Path:
    forms = [f"{stem}{mark}idx{rank}-ubyte{end}" for mark in "-." for end in (".gz", "")]
    found = next((path / form for form in forms if (path / form).is_file()), None)
    if found is None:
        raise InputError(f"{path} has no {forms[0]}, so a split is missing; get all of it again.")
    return found


def _array(file: Path, rank: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes after the header: two zeros, the type 8, the rank, and the sizes in big-endian."""
    try:
        if file.suffix == ".gz":
            with gzip.open(file) as stream:
                content = stream.read(LARGEST)
        else:
            content = file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(file, error) from error
    if content[:4] != bytes((0, 0, 8, rank)):
        raise InputError(f"{file} must be an idx file of bytes with {rank} dimensions.")
    shape = np.frombuffer(content[4 : 4 + 4 * rank], dtype=">u4").astype(int).tolist()
    pixels = np.frombuffer(content, dtype=np.uint8, offset=min(len(content), 4 + 4 * rank))
    if len(shape) != rank or len(pixels) != math.prod(shape):
        raise InputError(
            f"{file} is damaged or cut off (it says {shape} and holds {len(pixels)} values); "
            "delete it and get it again."
        )
    return pixels.reshape(shape)
