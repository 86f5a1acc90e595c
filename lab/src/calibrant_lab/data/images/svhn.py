"""SVHN (cropped digits) from the ``.mat`` files that its authors publish."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant_lab.data.check import whole_numbers
from calibrant_lab.data.images.archives import damaged
from calibrant_lab.data.table import RawData, RawPart

__all__ = ["read_svhn"]


def read_svhn(path: Path, *, name: str = "svhn", extra: bool = False) -> RawData:
    """Read ``train_32x32.mat`` and ``test_32x32.mat`` from a folder; the label 10 is the digit 0.

    Args:
        path: The folder.
        name: What to call the data.
        extra: Add the samples of ``extra_32x32.mat`` to the training ones.

    Raises:
        InputError: If a file is missing or damaged, or its arrays do not fit together.
    """
    train, test = (_samples(path / f"{split}_32x32.mat") for split in ("train", "test"))
    if extra:
        more = _samples(path / "extra_32x32.mat")
        train = tuple(torch.cat(each) for each in zip(train, more, strict=True))
    return RawData(
        name=name,
        train=RawPart(inputs=train[0], labels=train[1]),
        test=RawPart(inputs=test[0], labels=test[1]),
        class_names=tuple("0123456789"),
    )


def _samples(file: Path) -> tuple[torch.Tensor, ...]:
    """Images and labels."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    if not file.is_file():
        raise InputError(f"{file.parent} has no {file.name}, so a split of SVHN is missing; get it too.")
    try:
        content = loadmat(file, variable_names=["X", "y"])
    except (*DAMAGE, NotImplementedError, MatReadError) as error:
        raise damaged(file, error) from error
    pixels, labels = content.get("X"), content.get("y")
    if (
        not isinstance(pixels, np.ndarray)
        or pixels.dtype != np.uint8
        or pixels.ndim != 4
        or pixels.shape[:3] != (32, 32, 3)
    ):
        raise InputError(f"{file.name} must hold images X of shape (32, 32, 3, N) in bytes.")
    if not isinstance(labels, np.ndarray) or labels.size != pixels.shape[3]:
        raise InputError(f"{file.name} must hold one label y for each of the {pixels.shape[3]} images.")
    numbers = whole_numbers(labels.reshape(-1), what=f"{file.name}: y")
    if not bool(((numbers >= 1) & (numbers <= 10)).all()):
        raise InputError(f"{file.name}: labels must lie in 1 … 10, 10 being the digit 0.")
    inputs = torch.from_numpy(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)))
    return inputs, torch.from_numpy(numbers % 10)
