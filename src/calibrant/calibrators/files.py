"""Loading calibrators from files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.file_format import SINGLE_KEY, Header, damaged, read_file
from calibrant.calibrators.fitting.tables import fits_shape
from calibrant.calibrators.roster import CALIBRATORS


def load_calibrator(path: str | os.PathLike[str]) -> Calibrator:
    """Read a calibrator that :meth:`Calibrator.save` wrote.

    Nothing in the file is executed.

    Args:
        path: A ``.safetensors`` file.

    Returns:
        The fitted calibrator, on the CPU, which predicts bit for bit what it did when it was saved.

    Raises:
        InputError: If the file is not a calibrator, is damaged, or was written by a newer version.
        OSError: If it cannot be read.

    Example:
        >>> import tempfile
        >>> from calibrant.calibrators import TemperatureScaling
        >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 7 + [0] * 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     calibrator.save(f"{folder}/fitted.safetensors")
        ...     loaded = load_calibrator(f"{folder}/fitted.safetensors")
        >>> loaded.name, loaded.fit_result_ == calibrator.fit_result_
        ('temperature', True)
    """
    content, tensors = read_file(path, SINGLE_KEY, "a calibrator")
    return restored(path, headers_of(path, [content])[0], tensors)


def restored(path: str | os.PathLike[str], header: Header, tensors: dict[str, Tensor]) -> Calibrator:
    """The calibrator of a header and its parameters, which are checked."""
    maker = CALIBRATORS.get(header.name)
    if maker is None:
        raise InputError(f"{path} holds a calibrator {header.name!r}, which this calibrant does not know.")
    try:
        calibrator = maker(**header.settings)
    except (InputError, TypeError) as error:
        raise damaged(path, f"{header.name} has no settings {header.settings}") from error
    sizes = {"C": header.num_classes}
    for name, (low, high) in calibrator.parameter_ranges.items():
        value, letters = tensors.get(name), calibrator.parameter_shapes.get(name, ())
        if header.kind == "multilabel":
            letters = ("C", *letters)
        if value is None or value.dtype != torch.float64 or not fits_shape(value.shape, letters, sizes):
            raise damaged(path, f"`{name}` is missing or has another shape than ({', '.join(letters)})")
        if not bool((torch.isfinite(value) & (value >= low) & (value <= high)).all()):
            raise damaged(path, f"`{name}` lies outside {low:g} to {high:g}")
    if header.kind not in calibrator.kinds:
        raise damaged(path, f"{header.name} is not for {header.kind} predictions")
    calibrator.restore(
        tensors, header.fit, kind=header.kind, num_classes=header.num_classes, class_names=header.class_names
    )
    return calibrator


def headers_of(path: str | os.PathLike[str], contents: Sequence[Any]) -> list[Header]:
    """Headers that have the right form, as far as that can be told without knowing the calibrator."""
    from pydantic import TypeAdapter, ValidationError

    try:
        headers = TypeAdapter(list[Header]).validate_json(json.dumps(contents), strict=True)
    except ValidationError as error:
        raise damaged(path, "its header does not have the form of a calibrator's") from error
    for header in headers:
        names, classes = header.class_names, 2 if header.kind == "binary" else header.num_classes
        if names is not None and len(names) != classes:
            raise damaged(path, f"it has {len(names)} names for {classes} classes")
    return headers
