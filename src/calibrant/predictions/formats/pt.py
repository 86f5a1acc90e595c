"""Dictionaries of tensors that torch has saved, ``.pt``; nothing else in them is unpickled."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant.predictions.formats.arrays import fields_of_arrays
from calibrant.predictions.formats.contents import UNSAFE, Arrays, FileContents, damaged, disk_errors

BY = "torch.save({'logits': logits, 'labels': labels}, path)"


def read(path: Path) -> FileContents:
    """Read a dictionary of tensors and lists of texts."""
    try:
        with warnings.catch_warnings():  # of what it may not understand; where it does not, it raises
            warnings.filterwarnings("ignore", message="Detected pickle protocol", category=UserWarning)
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"it holds pickled objects other than tensors, {UNSAFE}, or it is damaged; write it by {BY}."
        ) from error
    except DAMAGE as error:
        raise InputError(damaged("a .pt file", error)) from error
    if not isinstance(loaded, dict):
        raise InputError(f"it holds a {type(loaded).__name__}; write it by {BY}.")
    arrays = {str(name): values for name, values in loaded.items()}
    return FileContents(fields=fields_of_arrays(list(arrays), arrays.__getitem__))


def write(arrays: Arrays, path: Path) -> None:
    """Write a dictionary of tensors and lists of texts."""
    whole: dict[str, Any] = {
        name: _trimmed(values) if isinstance(values, torch.Tensor) else list(values)
        for name, values in arrays.items()
    }
    with disk_errors(RuntimeError):
        torch.save(whole, path)


def _trimmed(tensor: Tensor) -> Tensor:
    """A tensor without the rows that a slice leaves out: it is saved with all of its storage."""
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()
