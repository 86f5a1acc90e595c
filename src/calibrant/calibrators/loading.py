"""Loading calibrators from files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, get_args

import torch
from torch import Tensor

from calibrant._math.checks import Task
from calibrant._math.errors import InputError
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.cohorts.by_group import GroupCalibrator
from calibrant.calibrators.cohorts.multicalibration import Correction, Multicalibrator
from calibrant.calibrators.file_format import (
    GROUPS_KEY,
    MULTI_KEY,
    SINGLE_KEY,
    Header,
    damaged,
    holds,
    read_file,
)
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
    return _restored(path, _headers_of(path, [content])[0], tensors)


def _restored(path: str | os.PathLike[str], header: Header, tensors: dict[str, Tensor]) -> Calibrator:
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
        if value is None or value.dtype != torch.float64 or not _fits_shape(value.shape, letters, sizes):
            raise damaged(path, f"`{name}` is missing or has another shape than ({', '.join(letters)})")
        if not bool((torch.isfinite(value) & (value >= low) & (value <= high)).all()):
            raise damaged(path, f"`{name}` lies outside {low:g} to {high:g}")
    if header.kind not in calibrator.kinds:
        raise damaged(path, f"{header.name} is not for {header.kind} predictions")
    facts = {name: getattr(header, name) for name in ("kind", "num_classes", "class_names", "event_column")}
    calibrator.restore(tensors, header.fit, **facts)
    return calibrator


def _headers_of(path: str | os.PathLike[str], contents: Sequence[Any]) -> list[Header]:
    from pydantic import TypeAdapter, ValidationError

    try:
        headers = TypeAdapter(list[Header]).validate_json(json.dumps(contents), strict=True)
    except ValidationError as error:
        raise damaged(path, "its header does not have the form of a calibrator's") from error
    for header in headers:
        names, classes = header.class_names, 2 if header.kind == "binary" else header.num_classes
        if names is not None and len(names) != classes:
            raise damaged(path, f"it has {len(names)} names for {classes} classes")
        if header.event_column not in {0, 1}:
            raise damaged(path, f"its event is column {header.event_column} of two")
    return headers


def load_group_calibrator(path: str | os.PathLike[str]) -> GroupCalibrator:
    """Read calibrators of groups that :meth:`GroupCalibrator.save` wrote, as :func:`load_calibrator` does.

    Its path, errors and device are those of that function.

    Example:
        >>> import tempfile
        >>> from calibrant.calibrators import fit_groups
        >>> groups = [1, 2, 3] * 6
        >>> fitted = fit_groups("temperature", [4.0] * 18, [1, 1, 0, 0, 1, 1] * 3, groups=groups, borrowed=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fitted.save(f"{folder}/groups.safetensors")
        ...     list(load_group_calibrator(f"{folder}/groups.safetensors").by_group)
        ['1', '2', '3']
    """
    content, tensors = read_file(path, GROUPS_KEY, "calibrators of groups")
    try:
        headers = _headers_of(path, content["parts"])
        groups, borrowed, unknown = content["groups"], float(content["borrowed"]), content["unknown"]
        names = {name for name in groups if isinstance(name, str)}
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path, "its header does not have the form of a group calibrator's") from error
    if len(headers) != len(groups) + 1 or len(names) != len(groups):
        raise damaged(path, "it does not hold one calibrator for each group")

    def part(place: int) -> dict[str, Tensor]:
        start = f"{place}."
        return {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}

    pooled, *parts = (_restored(path, header, part(place)) for place, header in enumerate(headers))
    by_group: dict[str, Calibrator] = dict(zip(groups, parts, strict=True))
    return GroupCalibrator(pooled, by_group, borrowed=borrowed, unknown=unknown)


def load_multicalibrator(path: str | os.PathLike[str]) -> Multicalibrator:
    """Read a file of :meth:`Multicalibrator.save`, as :func:`load_calibrator` does.

    Its path, errors and device are those of that function.

    Example:
        >>> import tempfile
        >>> from calibrant.calibrators import multicalibrate
        >>> fitted = multicalibrate([2.0, -1.0] * 20, [1, 1, 0, 0] * 10, groups=["a"] * 40, start="platt")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fitted.save(f"{folder}/groups.safetensors")
        ...     load_multicalibrator(f"{folder}/groups.safetensors").corrections == fitted.corrections
        True
    """
    from pydantic import TypeAdapter, ValidationError

    content, tensors = read_file(path, MULTI_KEY, "a multicalibrator")
    try:
        start, kind = content["start"], content["kind"]
        first = None if start is None else _restored(path, _headers_of(path, [start])[0], tensors)
        found = Multicalibrator(
            kind=kind,
            num_classes=int(content["num_classes"]),
            groups=tuple(str(name) for name in content["groups"]),
            corrections=tuple(TypeAdapter(list[Correction]).validate_python(content["corrections"])),
            start=first,
        )
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        if isinstance(error, InputError):
            raise
        raise damaged(path, "its header does not have the form of a multicalibrator's") from error
    events = {each.event for each in found.corrections}
    if kind not in get_args(Task) or not events <= set(range(found.num_classes)):
        raise damaged(path, "its corrections are of other predictions than it says")
    return found


def load_either(path: str | os.PathLike[str]) -> Calibrator | GroupCalibrator | Multicalibrator:
    """Load a calibrator, a group calibrator, or a multicalibrator, depending on the file.

    Raises:
        InputError: If the file holds neither, is damaged, or was written by a newer version.
        OSError: If it cannot be read.
    """
    if holds(path, MULTI_KEY):
        return load_multicalibrator(path)
    return load_group_calibrator(path) if holds(path, GROUPS_KEY) else load_calibrator(path)


def _fits_shape(shape: Sequence[int], letters: Sequence[str], sizes: dict[str, int]) -> bool:
    """Return True if every letter has one size throughout; new letters are added to ``sizes``."""
    return len(shape) == len(letters) and all(
        sizes.setdefault(letter, size) == size for letter, size in zip(letters, shape, strict=True)
    )
