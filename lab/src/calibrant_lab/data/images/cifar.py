"""Read CIFAR, its corrupted form, MNIST, Fashion-MNIST and SVHN from their published files."""

from __future__ import annotations

import gzip
import io
import math
import pickle
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, reason
from calibrant_lab.data.files import read_npz, whole_numbers
from calibrant_lab.data.images.archives import LARGEST, Files, damaged, opened
from calibrant_lab.data.table import Part, RawData

__all__ = ["read_cifar", "read_corrupted_cifar"]

Array = np.ndarray[Any, Any]
_PIXELS = 3 * 32 * 32


def read_cifar(path: Path, *, name: str | None = None) -> RawData:
    """Read CIFAR-10 or CIFAR-100 ("python version") from ``.tar.gz`` or a folder; its pickles run no code."""
    with opened(path) as files:
        if files.find("batches.meta") or files.find("data_batch_1"):
            title, meta = "cifar10", "batches.meta"
            batches = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
        elif files.find("train") and files.find("meta"):
            title, meta, batches = "cifar100", "meta", ["train", "test"]
        else:
            raise InputError(f"{path} holds no CIFAR batches (data_batch_1 or train) for Python.")
        names = _class_names(files, meta)
        *train, test = (_batch(files, each) for each in batches)
    if name in {"cifar10", "cifar100"} - {title}:
        raise InputError(f"{path} holds {title}, not {name}; name that set, or get the other archive.")
    pixels, labels = (np.concatenate(each) for each in zip(*train, strict=True))
    return RawData(name=name or title, class_names=names, train=_part(pixels, labels), test=_part(*test))


def _class_names(files: Files, meta: str) -> tuple[str, ...]:
    source = f"{files.path}: {meta}"
    described = read_pickle(files.content(meta, what="the list of classes"), source=source)
    names = described.get(b"label_names", described.get(b"fine_label_names"))
    if not isinstance(names, list) or not names:
        raise InputError(f"{source} must hold the names of the classes.")
    return tuple(
        each.decode("utf-8", errors="replace") if isinstance(each, bytes) else str(each) for each in names
    )


def _batch(files: Files, file: str) -> tuple[Array, Array]:
    """Return rows of 3072 bytes, and labels."""
    content, source = files.content(file, what="a batch of images"), f"{files.path}: {file}"
    found = read_pickle(content, source=source)
    data, labels = found.get(b"data"), found.get(b"labels", found.get(b"fine_labels"))
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (_PIXELS,):
        raise InputError(f"{source} must hold rows of {_PIXELS} bytes, one for each image.")
    try:
        numbers = np.asarray(labels)
    except ValueError:
        numbers = np.empty(0, dtype=object)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(numbers) != len(data) or len(data) == 0:
        raise InputError(f"{source} must hold one whole number per image as its label.")
    return data, numbers


def _part(pixels: Array, labels: Array) -> Part:
    inputs = torch.from_numpy(np.ascontiguousarray(pixels).reshape(-1, 3, 32, 32).copy())
    return Part(inputs=inputs, labels=torch.from_numpy(labels.astype(np.int64)))


_ARRAY = object()  # stands for numpy's type, which must not be called


def _empty_array(kind: object, shape: tuple[int, ...], _code: object) -> np.ndarray[Any, Any]:
    """Return the empty array at the start of numpy's pickles, which its state then fills."""
    if kind is not _ARRAY or int(np.prod(shape)) != 0:
        raise pickle.UnpicklingError("an array that does not begin empty")
    return np.ndarray.__new__(np.ndarray, shape, np.int8)


def _latin(text: str, encoding: str) -> bytes:
    """Return the bytes that Python 3 wrote to old pickles as text."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"the encoding {encoding!r}")
    return text.encode("latin1")


_KNOWN: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): _ARRAY,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin,
    ("builtins", "bytes"): lambda: b"",
    ("__builtin__", "bytes"): lambda: b"",
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which a batch of images does not need")
        return _KNOWN[module, name]


def read_pickle(content: bytes, *, source: str) -> dict[bytes, Any]:
    """Read a pickled dictionary with bytes as keys; refuse unknown classes; errors name ``source``."""
    try:
        found = _Restricted(io.BytesIO(content), encoding="bytes").load()
    except DAMAGE as error:
        raise InputError(
            f"{source} is not a batch of images ({reason(error)}); get the archive again."
        ) from error
    if not isinstance(found, dict):
        raise InputError(f"{source} is not a batch of images: it holds a {type(found).__name__}.")
    return {key if isinstance(key, bytes) else str(key).encode(): value for key, value in found.items()}


SEVERITIES = 5


def read_corrupted_cifar(
    path: Path, *, corruption: str, severity: int, name: str, class_names: Sequence[str]
) -> RawData:
    """Read only one corruption at one severity, from the archive or its unpacked folder."""
    if type(severity) is not int or severity not in range(1, SEVERITIES + 1):
        raise InputError(f"`severity` must be 1, 2, 3, 4 or 5; got {severity!r}.")
    with opened(path) as files:
        images = _rows(files, f"{corruption.replace('-', '_')}.npy", severity)
        labels = _rows(files, "labels.npy", severity)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (32, 32, 3):
        raise InputError(f"{path}: the images of {corruption} must be bytes of shape (N, 32, 32, 3).")
    if labels.shape != (len(images),) or labels.dtype.kind not in "iu":
        raise InputError(f"{path}: labels.npy must hold one whole number for each image.")
    part = Part(
        inputs=torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))),
        labels=torch.from_numpy(labels.astype(np.int64)),
    )
    return RawData(
        name=f"{name} {corruption} {severity}", train=part, test=part, class_names=tuple(class_names)
    )


def _rows(files: Files, file: str, severity: int) -> Array:
    name = files.find(file)
    if name is None:
        arrays = sorted(each for each in map(PurePosixPath, files.sizes) if each.suffix == ".npy")
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


def read_svhn(path: Path, *, name: str = "svhn", extra: bool = False) -> RawData:
    """Read SVHN's ``.mat`` files, with ``extra`` all three; the label 10 is the digit 0."""
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
    pixels: Any = content.get("X")
    labels: Any = content.get("y")
    form = (getattr(pixels, "dtype", None), np.shape(pixels)[:3], np.ndim(pixels))
    if form != (np.uint8, (32, 32, 3), 4):
        raise InputError(f"{file.name} must hold images X of shape (32, 32, 3, N) in bytes.")
    if not isinstance(labels, np.ndarray) or labels.size != pixels.shape[3]:
        raise InputError(f"{file.name} must hold one label y for each of the {pixels.shape[3]} images.")
    numbers = whole_numbers(labels.reshape(-1), what=f"{file.name}: y")
    if not bool(((numbers >= 1) & (numbers <= 10)).all()):
        raise InputError(f"{file.name}: labels must be in 1 … 10, 10 being the digit 0.")
    inputs = torch.from_numpy(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)))
    return inputs, torch.from_numpy(numbers % 10)


def read_idx(path: Path, *, name: str | None = None, class_names: Sequence[str] | None = None) -> RawData:
    """Read ``train-images-idx3-ubyte`` etc. (``.gz`` or not) from a folder, or an ``.npz`` file."""
    if path.suffix == ".npz":
        return read_npz(path, name=name, class_names=class_names)
    parts: dict[str, Any] = {}
    for split, word in (("train", "train"), ("test", "t10k")):
        pixels = _array(_file(path, f"{word}-images", 3), 3)
        labels = _array(_file(path, f"{word}-labels", 1), 1)
        parts[split] = Part(
            inputs=torch.from_numpy(pixels.copy())[:, None], labels=torch.from_numpy(labels.astype(np.int64))
        )
    highest = max((int(part.labels.max()) for part in parts.values() if len(part)), default=0)
    names = tuple(class_names or (str(number) for number in range(highest + 1)))
    return RawData(name=name or path.name, class_names=names, **parts)


def _file(path: Path, stem: str, rank: int) -> Path:
    forms = [f"{stem}{mark}idx{rank}-ubyte{end}" for mark in "-." for end in (".gz", "")]
    found = next((path / form for form in forms if (path / form).is_file()), None)
    if found is None:
        raise InputError(f"{path} has no {forms[0]}, so a split is missing; get all of it again.")
    return found


def _array(file: Path, rank: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Read the bytes after the header: two zeros, the type 8, the rank, and big-endian sizes."""
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
