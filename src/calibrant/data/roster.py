"""The data sets that are known by name; others come from files and folders."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant.data.files import read_folder, read_jpeg_archive, read_npz
from calibrant.data.table import RawData, RawPart
from calibrant.data.text.records import is_text_folder
from calibrant.data.text.roster import TEXTS, load_texts
from calibrant.data.text.sets import read_texts

_FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_DIGITS = tuple("0123456789")
_CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def load(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    words: int = 20_000,
    length: int = 1000,
) -> RawData:
    """Read data by name, from an ``.npz`` file, or from a folder with one folder of images per class.

    ``digits`` comes with scikit-learn; the other named sets are read from a folder of data sets, each in the
    folder of its name (``fashion_mnist/fashion_mnist.npz``). An ``.npz`` file holds ``x_train, y_train`` and,
    where there are such splits, ``x_val, y_val`` and ``x_test, y_test``: images ``(N, H, W)`` or
    ``(N, H, W, C)``, or features ``(N, D)``; optionally ``class_names``. A folder of images holds
    ``train/CLASS/*.png``, with ``val`` and ``test`` alongside, or ``CLASS/*.png`` alone. A folder of texts
    holds ``train.jsonl`` (or ``.jsonl.gz``), and perhaps ``val.jsonl`` and ``test.jsonl``: on each line
    ``{"text": …, "label": …}``.

    Args:
        name: A name of :func:`available`, or the path of a file or folder.
        folder: The folder of data sets; without it the environment variable ``CALIBRANT_DATA`` names it.
        words: For texts, the size of the vocabulary, padding included: the most frequent words.
        length: For texts, how many words count, from the end; shorter texts are padded.

    Raises:
        InputError: If there is no such set, or its content does not fit together.

    Example:
        >>> raw = load("digits")
        >>> len(raw.train.labels), raw.class_names[:3]
        (1797, ('0', '1', '2'))
    """
    if name in _NAMED:
        return _NAMED[name](name, folder)
    if name in TEXTS:
        return load_texts(name, folder=folder, words=words, length=length)
    path = Path(name)
    if path.suffix == ".npz":
        return read_npz(path)
    if path.is_dir() and is_text_folder(path):
        return read_texts(path, name=path.name, words=words, length=length)
    if path.is_dir():
        return read_folder(path)
    raise InputError(
        f"there is no data set {name!r}{nearest(name, available())} "
        "You can also give the path of an .npz file or of a folder of images or texts."
    )


def available() -> tuple[str, ...]:
    """Names that :func:`load` knows.

    Example:
        >>> available()[:3]
        ('digits', 'fashion_mnist', 'mnist')
    """
    return (*_NAMED, *TEXTS)


Folder = str | os.PathLike[str] | None
Load = Callable[[str, Folder], RawData]


def _digits(name: str, _folder: Folder) -> RawData:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels.reshape(-1, 1, 8, 8) / 16).float()
    part = RawPart(inputs=images, labels=torch.from_numpy(labels).long())
    return RawData(name=name, train=part, class_names=_DIGITS)


def _archive(file: str, *, read: Callable[..., RawData] = read_npz, **how: object) -> Load:
    """A set that lies in one file, in the folder of its name."""
    return lambda name, folder: read(_file(name, file, folder), name=name, **how)


_NAMED: dict[str, Load] = {
    "digits": _digits,
    "fashion_mnist": _archive("fashion_mnist.npz", class_names=_FASHION),
    "mnist": _archive("mnist.npz", class_names=_DIGITS),
    "cifar10_jpeg": _archive("cifar10_jpeg.npz", read=read_jpeg_archive, class_names=_CIFAR),
    "pneumoniamnist": _archive(
        "pneumoniamnist.npz", class_names=("normal", "pneumonia"), keys="{}_images {}_labels"
    ),
    "notmnist_ood": _archive("notmnist_test.npz", class_names=tuple("ABCDEFGHIJ"), keys="x y"),
}


def _file(name: str, file: str, folder: Folder) -> Path:
    """The path of a named set."""
    root = folder or os.environ.get("CALIBRANT_DATA")
    if not root:
        raise InputError(
            f"{name} is read from a folder of data sets: set CALIBRANT_DATA to it, "
            "or give the path of an .npz file."
        )
    path = Path(root) / name / file
    if not path.is_file():
        raise InputError(
            f"{name} should be at {path}, where there is no such file; set CALIBRANT_DATA to the folder of "
            "data sets."
        )
    return path
