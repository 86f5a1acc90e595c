"""Chest X-rays of three classes, most of them from ChestX-ray8, whose file names tell the patient."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant_lab.data.check import whole_numbers
from calibrant_lab.data.files import read_arrays
from calibrant_lab.data.table import RawData, RawPart

__all__ = ["read_chest_xray_covid"]


def read_chest_xray_covid(path: Path, *, name: str = "chest_xray_covid") -> RawData:
    """Read ``chest_xray_224.npz``: images ``x``, labels ``y``, ``classes``, and ``name`` (of the files).

    All images are training images, from which splits are cut by patients: in the split that the file proposes
    (``split``) some patients are in two parts. The patients of the COVID-19 images are not known; each image
    counts as one.

    Raises:
        InputError: If the file cannot be read or lacks an array.
    """
    arrays = read_arrays(path)
    missing = [key for key in ("x", "y", "classes", "name") if key not in arrays]
    if missing:
        raise InputError(f"{path.name} has no {missing[0]!r}; it holds {', '.join(arrays)}.")
    if arrays["x"].dtype != np.uint8 or arrays["x"].ndim != 3:
        raise InputError(
            f"{path.name}: 'x' must hold grey images of bytes (N, H, W); "
            f"got shape {arrays['x'].shape} of {arrays['x'].dtype}."
        )
    patients = [_patient(str(each)) for each in arrays["name"].tolist()]
    part = RawPart(
        inputs=torch.from_numpy(arrays["x"])[:, None],
        labels=torch.from_numpy(whole_numbers(arrays["y"], what=f"{path.name}: 'y'")),
        groups=torch.from_numpy(np.unique(patients, return_inverse=True)[1].astype(np.int64)),
    )
    return RawData(
        name=name,
        train=part,
        class_names=tuple(str(each) for each in np.atleast_1d(arrays["classes"]).tolist()),
    )


def _patient(file: str) -> str:
    """The patient of ``00001280_004.png``, or the file where it does not tell."""
    match = re.match(r"(\d{8})_\d{3}\.png", file)
    return match.group(1) if match else file
