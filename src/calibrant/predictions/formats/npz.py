"""Archives of numpy arrays, ``.npz``; nothing in them is unpickled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant.predictions.formats.arrays import fields_of_arrays
from calibrant.predictions.formats.contents import UNSAFE, Arrays, FileContents, damaged
from calibrant.predictions.labels import labels_by_name

BY = "numpy.savez(path, logits=..., labels=...)"


def read(path: Path) -> FileContents:
    """Read those arrays that are used."""
    with path.open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
        except DAMAGE as error:
            if "pickle" in str(error):
                raise InputError(
                    "it is not a .npz archive, and pickled objects are not loaded because they could run "
                    f"code; write it by {BY}."
                ) from error
            raise InputError(damaged("a .npz archive", error)) from error
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError(f"it holds one bare array; write it by {BY}.")
        twice = [name for name, number in Counter(archive.files).items() if number > 1]
        if twice:
            raise InputError(f"it holds `{twice[0]}` twice; write it by {BY}.")
        return FileContents(fields=fields_of_arrays(archive.files, lambda name: _member(archive, name)))


def write(arrays: Arrays, path: Path) -> None:
    """Write tensors, and texts as arrays of texts."""
    if "class_names" in arrays and "labels" in arrays:
        arrays = {**arrays, "labels": labels_by_name(arrays["labels"], arrays["class_names"])}
    whole: dict[str, Any] = {
        name: as_numpy(values) if isinstance(values, torch.Tensor) else np.array(values)
        for name, values in arrays.items()
    }
    with path.open("wb") as file:
        np.savez(file, **whole)


def as_numpy(tensor: Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    """The same values in a dtype that numpy knows (bfloat16 becomes float32)."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _member(archive: np.lib.npyio.NpzFile, name: str) -> Any:
    try:
        return archive[name]
    except DAMAGE as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"`{name}` holds Python objects, {UNSAFE}; write numbers, or texts as `{name}`.astype(str)."
            ) from error
        raise InputError(damaged(f"`{name}`", error)) from error
