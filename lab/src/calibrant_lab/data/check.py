"""What every data set must satisfy, whatever it was read from."""

from __future__ import annotations

import numpy as np

from calibrant._math.errors import InputError
from calibrant_lab.data.table import RawData

_MOST_CLASSES = 100_000
"""More than any real set has; a larger label is a mistake, such as an identifier in the wrong column."""


def check(raw: RawData, *, source: str) -> None:
    """Refuse splits without samples, labels that do not go with them, and images of different sizes."""
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
                f"{source}: labels must lie in 0 … {classes - 1}; the {split} split has {low} … {high}."
            )
        if 0 in part.inputs.shape:
            raise InputError(f"{where} must hold values; its samples have the shape {shape}.")
        if tuple(part.inputs.shape[1:]) != shape:
            raise InputError(
                f"{where} must hold samples of one shape, as the training split's {shape}; "
                f"got {tuple(part.inputs.shape[1:])}."
            )


def whole_numbers(values: np.ndarray, *, what: str) -> np.ndarray:
    """One whole number per row, as int64; floats that are whole will do. Errors begin with ``what``."""
    flat = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    numeric = flat.ndim == 1 and flat.dtype.kind in "uif"
    if not numeric or not bool(np.isfinite(flat).all()) or bool((flat != np.trunc(flat)).any()):
        raise InputError(
            f"{what} must hold one whole number per sample; got shape {values.shape} of {values.dtype}."
        )
    return flat.astype(np.int64)


def numbered_classes(highest: int, *, source: str) -> tuple[str, ...]:
    """Names of classes that are only known by their numbers; refuses more than any real set has."""
    if highest >= _MOST_CLASSES:
        raise InputError(f"{source}: labels must be the numbers of classes from 0; the highest is {highest}.")
    return tuple(str(number) for number in range(highest + 1))
