"""CIFAR-10-C and CIFAR-100-C (Hendrycks and Dietterich, 2019): test images under a corruption."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant_lab.data.images.archives import Files, opened
from calibrant_lab.data.table import RawData, RawPart

__all__ = ["read_corrupted_cifar"]

Array = np.ndarray[Any, Any]
SEVERITIES = 5


def read_corrupted_cifar(
    path: Path, *, corruption: str, severity: int, name: str, class_names: Sequence[str]
) -> RawData:
    """Read the images of one corruption at one severity, from the archive or the folder that it unpacks to.

    A file holds the images of all severities, one after the other; only those asked for are read.

    Args:
        path: ``CIFAR-10-C.tar`` or the folder with ``gaussian_noise.npy`` and its like.
        corruption: Such as ``gaussian-noise``.
        severity: 1 to 5.
        name: What to call the data.
        class_names: Names of the labels.

    Raises:
        InputError: If there is no such corruption or severity, or a file is missing or damaged.
    """
    if type(severity) is not int or severity not in range(1, SEVERITIES + 1):
        raise InputError(f"`severity` must be 1, 2, 3, 4 or 5; got {severity!r}.")
    with opened(path) as files:
        images = _rows(files, f"{corruption.replace('-', '_')}.npy", severity)
        labels = _rows(files, "labels.npy", severity)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (32, 32, 3):
        raise InputError(f"{path}: the images of {corruption} must be bytes of shape (N, 32, 32, 3).")
    if labels.shape != (len(images),) or labels.dtype.kind not in "iu":
        raise InputError(f"{path}: labels.npy must hold one whole number for each image.")
    part = RawPart(
        inputs=torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))),
        labels=torch.from_numpy(labels.astype(np.int64)),
    )
    return RawData(
        name=f"{name} {corruption} {severity}", train=part, test=part, class_names=tuple(class_names)
    )


def _rows(files: Files, file: str, severity: int) -> Array:
    """One fifth of an array."""
    name = files.find(file)
    if name is None:
        arrays = sorted(each for each in map(PurePosixPath, files.names()) if each.suffix == ".npy")
        there = ", ".join(each.stem.replace("_", "-") for each in arrays)
        raise InputError(f"{files.path} has no {file}; it has {there or 'no .npy files'}.")
    try:
        with files.open(name) as stream:
            return _fifth(stream, severity)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{file}: {error}") from error


def _fifth(stream: IO[bytes], severity: int) -> Array:
    form = np.lib.format
    first = form.read_magic(stream) == (1, 0)
    shape, fortran, dtype = (form.read_array_header_1_0 if first else form.read_array_header_2_0)(stream)
    if fortran or dtype.hasobject or not shape or min(shape) < 1 or shape[0] % SEVERITIES:
        raise ValueError(f"an array of shape {shape} and type {dtype}")
    count = shape[0] // SEVERITIES
    size = int(count * dtype.itemsize * np.prod(shape[1:], dtype=int))
    stream.seek(size * (severity - 1), io.SEEK_CUR)
    content = stream.read(size)
    if len(content) != size:
        raise EOFError("it ends too early")
    return np.frombuffer(bytearray(content), dtype=dtype).reshape(count, *shape[1:])
