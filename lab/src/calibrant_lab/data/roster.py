"""Datasets known by name; others come from files and folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.text_form import build_from, nearest
from calibrant.demo.networks import read_digits
from calibrant_lab.data.fetch import Folder, located, published
from calibrant_lab.data.files import check, of_arrays, read_npz
from calibrant_lab.data.images.archives import ARCHIVES
from calibrant_lab.data.images.cifar import read_cifar, read_corrupted_cifar, read_idx, read_svhn
from calibrant_lab.data.images.encoded import ImageFiles, read_folder, read_jpeg_archive, read_tiny_imagenet
from calibrant_lab.data.lazy import Geometry, LazyImages, StoredImages
from calibrant_lab.data.table import Part, RawData
from calibrant_lab.data.text.sets import read_finsen, read_newsgroups, read_texts, read_trees
from calibrant_lab.data.xray_sets import read_chest_xray_covid, read_chestxray14
from calibrant_lab.elsewhere import ELSEWHERE, imported


def load(
    name: str, *, folder: str | os.PathLike[str] | None = None, geometry: Geometry | None = None
) -> RawData:
    """Load data by name, or from a file or folder.

    ``digits`` comes with calibrant. Other named sets are read from a folder of data sets, each in the
    folder of its name (``cifar10/cifar-10-python.tar.gz``, ``fashion_mnist/fashion_mnist.npz``); those whose
    checksum is published are otherwise downloaded to a cache. Some names take settings: ``svhn(extra=True)``,
    ``cifar10-c(corruption="fog", severity=3)``; those of texts take ``words``, the size of the vocabulary
    (20 000, padding included), and ``length``, how many words count, from the end (1000).

    A path leads to an ``.npz`` file, to the files of a known set (the archive, or the folder that it unpacks
    to), or to a folder of images. An ``.npz`` file holds ``x_train, y_train`` and optionally ``x_val,
    y_val``, ``x_test, y_test`` and ``class_names``. ``x`` are images ``(N, H, W)`` or ``(N, H, W, C)``, or
    features ``(N, D)``. ``y`` are class numbers, or ``(N, C)`` with 0 or 1 for each of several labels. A
    folder of images holds ``train/CLASS/*.png``, with ``val`` and ``test`` alongside, or ``CLASS/*.png``
    alone. A folder of texts holds ``train.jsonl`` (or ``.jsonl.gz``) and perhaps ``val.jsonl`` and
    ``test.jsonl``, with ``{"text": …, "label": …}`` on each line.

    ``module:factory``, or ``module:factory(setting=value)``, is a function of your own, which returns
    :class:`RawData`, or a dictionary with the arrays of an ``.npz`` file.

    Args:
        name: A name of :func:`available`, the path of a file or folder, or ``module:factory``.
        folder: The folder of data sets; without it the environment variable ``CALIBRANT_DATA`` names it.
        geometry: How images are scaled and cut when they are chosen.

    Raises:
        InputError: If there is no such set, or its content does not fit together.

    Example:
        >>> raw = load("digits")
        >>> len(raw.train.labels), raw.class_names[:3]
        (1797, ('0', '1', '2'))
    """
    raw = _named_or_from_path(name, folder)
    for part in raw.parts.values():
        if isinstance(part.inputs, ImageFiles) and not (geometry and (geometry.size or geometry.crop)):
            part.inputs.check_sizes()
    if geometry:
        shaped = {
            split: replace(part, inputs=_shaped(part.inputs, geometry)) for split, part in raw.parts.items()
        }
        raw = replace(raw, **shaped)
    check(raw, source=Path(name).name)
    return raw


def available() -> tuple[str, ...]:
    """Names that :func:`load` knows.

    Example:
        >>> available()[:3]
        ('digits', 'fashion_mnist', 'mnist')
    """
    return tuple(_NAMED)


Load = Callable[..., RawData]


def _named_or_from_path(name: str, folder: Folder) -> RawData:
    head = name.partition("(")[0].strip()
    if head in _NAMED:
        return build_from(name, {head: partial(_NAMED[head], head, folder)}, what="data set")
    path = Path(name)
    if ELSEWHERE.fullmatch(name) and not path.drive and not path.exists():
        return _made(name)
    if path.suffix == ".npz" and not path.is_dir():
        return read_npz(path)
    if not path.exists() and (len(path.parts) > 1 or path.name.endswith(ARCHIVES)):
        raise InputError(f"{name} does not exist; give the path of a file or folder, or the name of a set.")
    if (name.strip() and path.is_dir()) or (path.is_file() and path.name.endswith(ARCHIVES)):
        return _recognised(path)
    if path.is_file():
        raise InputError(
            f"{name} is not a file of data that can be read: give an .npz file, an archive of a known set "
            f"({', '.join(ARCHIVES)}), or a folder of images or texts."
        )
    raise InputError(
        f"there is no data set {name!r}{nearest(head, _NAMED)} "
        "You can also give the path of an .npz file, of an archive of a known set, or of a folder of images "
        "or texts. A function of your own has the form module:factory."
    )


def _made(name: str) -> RawData:
    made = imported(name, {})
    if isinstance(made, RawData):
        return made
    if not isinstance(made, Mapping):
        raise InputError(
            f"{name} must give RawData, or a dictionary with x_train and y_train; got {type(made).__name__}."
        )
    return of_arrays({key: np.asarray(value) for key, value in made.items()}, source=name, name=name)


def _recognised(path: Path) -> RawData:
    """Recognise known sets by their files; else expect a folder of images per class."""
    if path.is_file():
        return (read_tiny_imagenet if path.suffix == ".zip" else read_cifar)(path)
    for marks, read in (
        (("Data_Entry_2017*.csv",), read_chestxray14),
        (("train.jsonl", "train.jsonl.gz"), read_texts),
        (("wnids.txt", "*/wnids.txt"), read_tiny_imagenet),
        (("train_32x32.mat", "test_32x32.mat"), read_svhn),
        (("*-images?idx3-ubyte*",), read_idx),
        (("data_batch_1", "*/data_batch_1", "meta", "*/meta"), read_cifar),
    ):
        if any(found.is_file() for mark in marks for found in path.glob(mark)):
            return read(path)
    return read_folder(path)


def _shaped(inputs: object, geometry: Geometry) -> LazyImages:
    if isinstance(inputs, LazyImages):
        return inputs.with_geometry(geometry)
    if not isinstance(inputs, torch.Tensor) or inputs.ndim != 4 or inputs.dtype != torch.uint8:
        raise InputError("only images of bytes can be scaled; leave data.size and data.channels at 0.")
    return StoredImages(inputs, geometry=geometry)


def _digits(name: str, _folder: Folder) -> RawData:
    pixels, labels = read_digits()
    images = torch.from_numpy(pixels.reshape(-1, 1, 8, 8) / 16).float()
    part = Part(inputs=images, labels=torch.from_numpy(labels))
    return RawData(name=name, train=part, class_names=tuple("0123456789"))


def _classes(name: str) -> dict[str, Any]:
    classes = published()[name].get("classes")
    return {"class_names": tuple(classes)} if classes else {}


def _plain(read: Callable[..., RawData], **how: object) -> Load:
    def load_it(name: str, folder: Folder) -> RawData:
        return read(located(name, folder), name=name, **_classes(name), **how)

    return load_it


def _texts(read: Callable[..., RawData] = read_texts) -> Load:
    def load_it(name: str, folder: Folder, *, words: int = 20_000, length: int = 1000) -> RawData:
        return read(located(name, folder), name=name, words=words, length=length, **_classes(name))

    return load_it


def _corrupted(name: str, folder: Folder, *, corruption: str = "", severity: int = 0) -> RawData:
    if not corruption or not severity:
        raise InputError(
            f"{name} needs a corruption and a severity, as in "
            f'{name}(corruption="gaussian-noise", severity=3).'
        )
    place, which = located(name, folder), {"corruption": str(corruption), "severity": severity}
    return read_corrupted_cifar(place, name=name, **which, **_classes(name))


_NAMED: dict[str, Load] = {
    "digits": _digits,
    "fashion_mnist": _plain(read_idx),
    "mnist": _plain(read_idx),
    "cifar10": _plain(read_cifar),
    "cifar100": _plain(read_cifar),
    "svhn": lambda name, folder, *, extra=False: read_svhn(
        located(name, folder, extra=extra), name=name, extra=extra
    ),
    "tiny_imagenet": _plain(read_tiny_imagenet),
    "cifar10-c": _corrupted,
    "cifar100-c": _corrupted,
    "cifar10_jpeg": _plain(read_jpeg_archive),
    "pneumoniamnist": _plain(read_npz, keys="{}_images {}_labels"),
    "notmnist_ood": _plain(read_npz, keys="x y"),
    "chestxray14": _plain(read_chestxray14),
    "chest_xray_covid": _plain(read_chest_xray_covid),
    "newsgroups20": _texts(read_newsgroups),
    "sst_trees": lambda name, folder, *, fine=False: read_trees(located(name, folder), name=name, fine=fine),
    "ag_news_subset": _texts(),
    "trec_questions": _texts(),
    "financial_phrasebank": _texts(),
    "finsen": _texts(read_finsen),
}
"""Readers by name; they take the set's name and the data folder, and further parameters as settings."""
