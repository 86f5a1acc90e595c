"""CIFAR-10 and CIFAR-100 as their authors publish them: python or binary batches, archived or unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant_lab.data.images.archives import Files, opened
from calibrant_lab.data.images.pickles import read_pickle
from calibrant_lab.data.table import RawData, RawPart

__all__ = ["read_cifar"]

Array = np.ndarray[Any, Any]
_PIXELS = 3 * 32 * 32


def read_cifar(path: Path, *, name: str | None = None) -> RawData:
    """Read CIFAR-10 or CIFAR-100, whichever it is, from ``.tar.gz`` or from a folder with the batches.

    The python batches are pickles; they are read by a reader that runs nothing.

    Raises:
        InputError: If a batch is missing or damaged, or does not hold 32 × 32 images with labels.
    """
    with opened(path) as files:
        if files.find("batches.meta") or files.find("data_batch_1"):
            parts, names = _python(
                files, [f"data_batch_{n}" for n in range(1, 6)], "test_batch", "batches.meta"
            )
            title = "cifar10"
        elif files.find("data_batch_1.bin"):
            parts, names = _binary(
                files, [f"data_batch_{n}.bin" for n in range(1, 6)], "test_batch.bin", "batches.meta.txt", 1
            )
            title = "cifar10"
        elif files.find("train.bin"):
            parts, names = _binary(files, ["train.bin"], "test.bin", "fine_label_names.txt", 2)
            title = "cifar100"
        elif files.find("train") and files.find("meta"):
            parts, names = _python(files, ["train"], "test", "meta")
            title = "cifar100"
        else:
            raise InputError(
                f"{path} holds no CIFAR batches (data_batch_1, train, data_batch_1.bin or train.bin)."
            )
    if name in {"cifar10", "cifar100"} - {title}:
        raise InputError(f"{path} holds {title}, not {name}; name that set, or get the other archive.")
    return RawData(name=name or title, class_names=names, **parts)


def _python(
    files: Files, train: Sequence[str], test: str, meta: str
) -> tuple[dict[str, RawPart], tuple[str, ...]]:
    def batch(file: str) -> tuple[Array, Array]:
        found = read_pickle(files.content(file, what="a batch of images"), source=f"{files.path}: {file}")
        labels = found.get(b"labels", found.get(b"fine_labels"))
        return _checked(found.get(b"data"), labels, f"{files.path}: {file}")

    described = read_pickle(files.content(meta, what="the list of classes"), source=f"{files.path}: {meta}")
    names = described.get(b"label_names", described.get(b"fine_label_names"))
    if not isinstance(names, list) or not names:
        raise InputError(f"{files.path}: {meta} must hold the names of the classes.")
    return _parts([batch(file) for file in train], batch(test)), tuple(_text(each) for each in names)


def _binary(
    files: Files, train: Sequence[str], test: str, meta: str, width: int
) -> tuple[dict[str, RawPart], tuple[str, ...]]:
    """Records of ``width`` labels (the last is the fine one) and the pixels."""

    def batch(file: str) -> tuple[Array, Array]:
        content = files.content(file, what="a batch of images")
        if not content or len(content) % (width + _PIXELS):
            raise InputError(
                f"{files.path}: {file} must be records of {width + _PIXELS} bytes; got {len(content)} bytes."
            )
        records = np.frombuffer(content, dtype=np.uint8).reshape(-1, width + _PIXELS)
        return _checked(records[:, width:], records[:, width - 1], f"{files.path}: {file}")

    names = files.content(meta, what="the list of classes").decode("utf-8", errors="replace").split()
    if not names:
        raise InputError(f"{files.path}: {meta} must hold the names of the classes.")
    return _parts([batch(file) for file in train], batch(test)), tuple(names)


def _parts(train: Sequence[tuple[Array, Array]], test: tuple[Array, Array]) -> dict[str, RawPart]:
    pixels, labels = (np.concatenate(each) for each in zip(*train, strict=True))
    return {"train": _part(pixels, labels), "test": _part(*test)}


def _part(pixels: Array, labels: Array) -> RawPart:
    inputs = torch.from_numpy(np.ascontiguousarray(pixels).reshape(-1, 3, 32, 32).copy())
    return RawPart(inputs=inputs, labels=torch.from_numpy(labels.astype(np.int64)))


def _checked(data: object, labels: object, source: str) -> tuple[Array, Array]:
    """Rows of 3072 bytes with one label each."""
    if (
        not isinstance(data, np.ndarray)
        or data.dtype != np.uint8
        or data.ndim != 2
        or data.shape[1] != _PIXELS
    ):
        raise InputError(f"{source} must hold rows of {_PIXELS} bytes, one for each image.")
    try:
        numbers = np.asarray(labels)
    except ValueError:
        numbers = np.empty(0, dtype=object)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(numbers) != len(data) or len(data) == 0:
        raise InputError(f"{source} must hold one whole number per image as its label.")
    return data, numbers


def _text(name: object) -> str:
    return name.decode("utf-8", errors="replace") if isinstance(name, bytes) else str(name)
