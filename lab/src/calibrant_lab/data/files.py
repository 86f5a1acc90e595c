"""Read ``.npz`` files of samples and tables, and check datasets."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, reason
from calibrant._math.text_form import nearest
from calibrant_lab.data.table import Part, RawData

_MOST_CLASSES = 100_000
"""More than any real set has; a larger label is a mistake, such as an identifier in the wrong column."""


def check(raw: RawData, *, source: str) -> None:
    """Refuse empty splits, mismatched labels, and images of different sizes."""
    classes, shape = len(raw.class_names), tuple(raw.train.inputs.shape[1:]) if len(raw.train.inputs) else ()
    if classes < 2:
        raise InputError(f"{source} must have at least two classes; got {classes}.")
    for split, part in raw.parts.items():
        where, count, labels = f"{source}: the {split} split", len(part.inputs), part.labels
        if not count:
            raise InputError(f"{where} must hold samples; got none.")
        if part.groups is not None and len(part.groups) != count:
            raise InputError(f"{where} must name a group for each of its {count} samples.")
        if len(labels) != count:
            raise InputError(f"{where} must hold as many labels as samples; got {len(labels)} and {count}.")
        if labels.shape[1:] not in ((), (classes,)) or labels.ndim != raw.train.labels.ndim:
            raise InputError(
                f"{where} has labels of shape {tuple(labels.shape)}, which do not go with the {classes} "
                f"classes or the training split's {tuple(raw.train.labels.shape)}."
            )
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= classes:
            raise InputError(
                f"{source}: labels must be in 0 … {classes - 1}; the {split} split has {low} … {high}."
            )
        if 0 in part.inputs.shape:
            raise InputError(f"{where} must hold values; its samples have the shape {shape}.")
        if tuple(part.inputs.shape[1:]) != shape:
            raise InputError(
                f"{where} must hold samples of one shape, as the training split's {shape}; "
                f"got {tuple(part.inputs.shape[1:])}."
            )


def whole_numbers(values: np.ndarray, *, what: str) -> np.ndarray:
    """Return one whole number per row, as int64; whole floats are allowed; errors begin with ``what``."""
    flat = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    numeric = flat.ndim == 1 and flat.dtype.kind in "uif"
    if not numeric or not bool(np.isfinite(flat).all()) or bool((flat != np.trunc(flat)).any()):
        raise InputError(
            f"{what} must hold one whole number per sample; got shape {values.shape} of {values.dtype}."
        )
    return flat.astype(np.int64)


def numbered_classes(highest: int, *, source: str) -> tuple[str, ...]:
    """Name classes that have only numbers; refuse more than any real set has."""
    if highest >= _MOST_CLASSES:
        raise InputError(f"{source}: labels must be the numbers of classes from 0; the highest is {highest}.")
    return tuple(str(number) for number in range(highest + 1))


Array = np.ndarray[Any, Any]

SPLITS: dict[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "calibration": ("val", "valid", "validation", "calibration", "dev"),
    "test": ("test",),
}
"""Names of the splits in files and folders."""


def read_npz(
    path: Path, *, name: str | None = None, class_names: Sequence[str] | None = None, keys: str = "x_{} y_{}"
) -> RawData:
    """Read images or features with labels from an ``.npz`` file; ``keys`` names its arrays."""
    return of_arrays(
        read_arrays(path), source=path.name, name=name or path.stem, class_names=class_names, keys=keys
    )


def of_arrays(
    arrays: Mapping[str, Array],
    *,
    source: str,
    name: str,
    class_names: Sequence[str] | None = None,
    keys: str = "x_{} y_{}",
) -> RawData:
    """Return images or features with labels, from arrays named as in an ``.npz`` file."""
    found: dict[str, Any] = {}
    for split, words in SPLITS.items():
        for word in words:
            x, y = (key.format(word) for key in keys.split())
            if x in arrays and y in arrays and split not in found:
                found[split] = _raw_part(arrays[x], arrays[y], source, x, y)
            elif x in arrays and split not in found:
                raise InputError(f"{source} has {x!r} but no labels {y!r}.")
        if "{}" not in keys:  # one part only
            break
    if "train" not in found:
        x, y = (key.format("train") for key in keys.split())
        raise InputError(f"{source} must hold {x!r} and {y!r}; it holds {', '.join(arrays) or 'nothing'}.")
    if class_names is None:
        class_names = _class_names(arrays, found, source)
    return RawData(name=name, class_names=tuple(class_names), **found)


def read_arrays(path: Path) -> Mapping[str, Array]:
    if not path.is_file():
        raise InputError(f"{path} does not exist.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except DAMAGE as error:
        what = "it holds no named arrays" if isinstance(error, TypeError) else reason(error)
        what = "it holds Python objects" if "pickle" in what else what
        raise InputError(f"{path} cannot be read as .npz ({what}); save it again by numpy.savez.") from error


def table_rows(path: Path, needed: Sequence[str]) -> Iterator[Mapping[str, str | None]]:
    try:
        with path.open(encoding="utf-8-sig", errors="strict", newline="") as file:
            reader = csv.DictReader(file)
            header = reader.fieldnames or []
            for name in needed:
                if name not in header:
                    raise InputError(f"{path} has no column {name!r}{nearest(name, header)}")
            yield from reader
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as CSV ({reason(error)}); save it as UTF-8.") from error


def _raw_part(inputs: Array, labels: Array, source: str, x: str, y: str) -> Part:
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "biu":
        raise InputError(
            f"{source}: {y!r} must hold one whole number per sample, or 0 and 1 for each label; "
            f"got shape {labels.shape} of {labels.dtype}."
        )
    if labels.ndim == 2 and (np.unique(labels) > 1).any() | (labels.min(initial=0) < 0):
        raise InputError(f"{source}: {y!r} of shape {labels.shape} must hold 0 and 1.")
    if labels.ndim == 2 and bool((labels.sum(axis=1) == 1).all()):
        raise InputError(
            f"{source}: {y!r} must hold the number of the class where each sample has exactly one; "
            "store labels.argmax(axis=1)."
        )
    if not len(labels):
        raise InputError(f"{source}: {y!r} must hold a label for each sample; got none.")
    if inputs.ndim not in (2, 3, 4) or inputs.dtype.kind not in "biuf":
        raise InputError(
            f"{source}: {x!r} must be images (N, H, W[, C]) or features (N, D); "
            f"got shape {inputs.shape} of {inputs.dtype}."
        )
    if inputs.dtype != np.uint8:
        inputs = inputs.astype(np.float32)
        bad = ~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
        if bad.any():
            raise InputError(f"{source}: {x!r} must be finite; row {int(bad.argmax())} is not.")
    elif inputs.ndim == 2:
        inputs = inputs.astype(np.float32)  # counts, not pixels
    tensor = torch.from_numpy(inputs)
    if inputs.ndim == 3:
        tensor = tensor[:, None]
    elif inputs.ndim == 4:
        tensor = tensor.permute(0, 3, 1, 2).contiguous()
    return Part(inputs=tensor, labels=torch.from_numpy(labels.astype(np.int64)))


def _class_names(arrays: Mapping[str, Array], found: Mapping[str, Part], source: str) -> tuple[str, ...]:
    if "class_names" in arrays:
        return tuple(str(name) for name in np.atleast_1d(arrays["class_names"]).tolist())
    labels = found["train"].labels
    if labels.ndim == 2:
        return tuple(str(number) for number in range(labels.shape[1]))
    return numbered_classes(int(torch.cat([part.labels for part in found.values()]).max()), source=source)
