"""Which sets of data there are, and where the others come from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant.data.files import read_folder, read_jpeg_archive, read_npz
from calibrant.data.table import RawData, Source

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
_CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def load(name: str, *, folder: str | os.PathLike[str] | None = None) -> RawData:
    """Read data by name, from an ``.npz`` file, or from a folder with one folder of images per class.

    ``digits`` comes with scikit-learn; the other named sets are read from a folder of data sets, each in the
    folder of its name (``fashion_mnist/fashion_mnist.npz``). An ``.npz`` file holds ``x_train, y_train``
    and, where
    there are such splits, ``x_val, y_val`` and ``x_test, y_test``: images ``(N, H, W)`` or ``(N, H, W,
    C)``, or
    features ``(N, D)``; optionally ``class_names``. A folder of images is ``train/CLASS/*.png`` beside
    ``val`` and ``test``, or ``CLASS/*.png`` alone.

    Args:
        name: A name of :func:`available`, or the path of a file or folder.
        folder: The folder of data sets; without it the environment variable ``CALIBRANT_DATA`` names it.

    Raises:
        InputError: If there is no such set, or its content does not fit together.

    Example:
        >>> raw = load("digits")
        >>> len(raw.train.labels), raw.class_names[:3]
        (1797, ('0', '1', '2'))
    """
    if name in _NAMED:
        return _NAMED[name](folder)
    path = Path(name)
    if path.suffix == ".npz":
        return read_npz(path)
    if path.is_dir():
        return read_folder(path)
    raise InputError(
        f"there is no data set {name!r}{nearest(name, _NAMED)} "
        "Besides names, the path of an .npz file or of a folder of images will do."
    )


def available() -> tuple[str, ...]:
    """Names that :func:`load` knows.

    Example:
        >>> available()
        ('digits', 'fashion_mnist', 'mnist', 'cifar10_jpeg', 'pneumoniamnist', 'notmnist_ood')
    """
    return tuple(_NAMED)


Folder = str | os.PathLike[str] | None


def _digits(_folder: Folder) -> RawData:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels.reshape(-1, 1, 8, 8) / 16).float()
    source = Source(inputs=images, labels=torch.from_numpy(labels).long())
    return RawData(name="digits", train=source, class_names=tuple(str(digit) for digit in range(10)))


def _fashion_mnist(folder: Folder) -> RawData:
    return read_npz(
        _file("fashion_mnist", "fashion_mnist.npz", folder), name="fashion_mnist", class_names=_FASHION
    )


def _mnist(folder: Folder) -> RawData:
    names = tuple(str(digit) for digit in range(10))
    return read_npz(_file("mnist", "mnist.npz", folder), name="mnist", class_names=names)


def _cifar10(folder: Folder) -> RawData:
    path = _file("cifar10_jpeg", "cifar10_jpeg.npz", folder)
    return read_jpeg_archive(path, name="cifar10_jpeg", class_names=_CIFAR)


def _pneumonia(folder: Folder) -> RawData:
    path = _file("pneumoniamnist", "pneumoniamnist.npz", folder)
    return read_npz(
        path, name="pneumoniamnist", class_names=("normal", "pneumonia"), keys="{}_images {}_labels"
    )


def _notmnist(folder: Folder) -> RawData:
    path = _file("notmnist_ood", "notmnist_test.npz", folder)
    return read_npz(path, name="notmnist_ood", class_names=tuple("ABCDEFGHIJ"), keys="x y")


_NAMED: dict[str, Callable[[Folder], RawData]] = {
    "digits": _digits,
    "fashion_mnist": _fashion_mnist,
    "mnist": _mnist,
    "cifar10_jpeg": _cifar10,
    "pneumoniamnist": _pneumonia,
    "notmnist_ood": _notmnist,
}


def _file(name: str, file: str, folder: Folder) -> Path:
    """Where a named set lies."""
    root = folder or os.environ.get("CALIBRANT_DATA")
    if not root:
        raise InputError(
            f"{name} is read from a folder of data sets: set CALIBRANT_DATA to it, "
            "or give the path of an .npz file."
        )
    path = Path(root) / name / file
    if not path.is_file():
        raise InputError(
            f"{name} should be at {path}, where there is no such file; CALIBRANT_DATA names the folder."
        )
    return path
