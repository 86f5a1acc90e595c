"""Reading arrays of samples from ``.npz`` files."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant.data.table import RawData, RawPart

Array = np.ndarray[Any, Any]

SPLITS: dict[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "calibration": ("val", "valid", "validation", "calibration"),
    "test": ("test",),
}
"""What the splits are called in files and folders."""


def read_npz(
    path: Path, *, name: str | None = None, class_names: Sequence[str] | None = None, keys: str = "x_{} y_{}"
) -> RawData:
    """Read images or features with labels from an ``.npz`` file; ``keys`` says what its arrays are called.

    Raises:
        InputError: If the file cannot be read, lacks the training data, or its arrays do not fit together.
    """
    arrays = read_arrays(path)
    found: dict[str, RawPart] = {}
    for split, words in SPLITS.items():
        for word in words:
            x, y = (key.format(word) for key in keys.split())
            if x in arrays and y in arrays and split not in found:
                found[split] = _raw_part(arrays[x], arrays[y], path, x, y)
            elif x in arrays and split not in found:
                raise InputError(f"{path.name} has {x!r} but no labels {y!r}.")
        if "{}" not in keys:  # one part only
            break
    if "train" not in found:
        x, y = (key.format("train") for key in keys.split())
        raise InputError(f"{path.name} must hold {x!r} and {y!r}; it holds {', '.join(arrays) or 'nothing'}.")
    if class_names is None:
        class_names = _class_names(arrays, found)
    check_labels(found, len(class_names), path.name)
    return RawData(name=name or path.stem, class_names=tuple(class_names), **found)


def read_arrays(path: Path) -> Mapping[str, Array]:
    """The arrays of an ``.npz`` file.

    Raises:
        InputError: If it cannot be read.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{path} cannot be read as .npz: {error}.") from error


def _raw_part(inputs: Array, labels: Array, path: Path, x: str, y: str) -> RawPart:
    """Images with channels first, or features, and int64 labels."""
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "biu":
        raise InputError(
            f"{path.name}: {y!r} must hold one whole number per sample, or 0 and 1 for each label; "
            f"got shape {labels.shape} of {labels.dtype}."
        )
    if labels.ndim == 2 and (np.unique(labels) > 1).any() | (labels.min(initial=0) < 0):
        raise InputError(f"{path.name}: {y!r} of shape {labels.shape} must hold 0 and 1.")
    if labels.ndim == 2 and bool((labels.sum(axis=1) == 1).all()):
        raise InputError(
            f"{path.name}: {y!r} must hold the number of the class where each sample has exactly one; "
            "store labels.argmax(axis=1)."
        )
    if len(inputs) != len(labels):
        raise InputError(f"{path.name}: {x!r} has {len(inputs)} samples, {y!r} has {len(labels)}.")
    if inputs.ndim not in (2, 3, 4) or inputs.dtype.kind not in "biuf":
        raise InputError(
            f"{path.name}: {x!r} must be images (N, H, W[, C]) or features (N, D); "
            f"got shape {inputs.shape} of {inputs.dtype}."
        )
    if inputs.dtype != np.uint8:
        inputs = inputs.astype(np.float32)
        bad = ~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
        if bad.any():
            raise InputError(f"{path.name}: {x!r} must be finite; row {int(bad.argmax())} is not.")
    elif inputs.ndim == 2:
        inputs = inputs.astype(np.float32)  # counts, not pixels
    tensor = torch.from_numpy(inputs)
    if inputs.ndim == 3:
        tensor = tensor[:, None]
    elif inputs.ndim == 4:
        tensor = tensor.permute(0, 3, 1, 2).contiguous()
    return RawPart(inputs=tensor, labels=torch.from_numpy(labels.astype(np.int64)))


def _class_names(arrays: Mapping[str, Array], found: Mapping[str, RawPart]) -> tuple[str, ...]:
    """The names in the file, or numbers."""
    if "class_names" in arrays:
        return tuple(str(name) for name in arrays["class_names"].tolist())
    labels = found["train"].labels
    if labels.ndim == 2:
        return tuple(str(number) for number in range(labels.shape[1]))
    return tuple(str(number) for number in range(max(int(part.labels.max()) for part in found.values()) + 1))


def check_labels(found: Mapping[str, RawPart], num_classes: int, file: str) -> None:
    """Refuse labels out of range.

    Raises:
        InputError: If one is.
    """
    if num_classes < 2:
        raise InputError(f"{file} must have at least two classes; got {num_classes}.")
    for split, part in found.items():
        if part.labels.shape[1:] != found["train"].labels.shape[1:] or part.labels.shape[1:] not in (
            (),
            (num_classes,),
        ):
            raise InputError(
                f"{file}: the {split} split has labels of shape {tuple(part.labels.shape)}, which do not go "
                f"with the {num_classes} names or the training split's {tuple(found['train'].labels.shape)}."
            )
        low, high = int(part.labels.min()), int(part.labels.max())
        if low < 0 or high >= num_classes:
            raise InputError(
                f"{file}: labels must lie in 0 … {num_classes - 1}; the {split} split has {low} … {high}."
            )
