"""Calibrators as files: the parameters as safetensors, everything else as JSON in its header."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import calibrant
from calibrant._math.checks import Task
from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant.calibrators._tables import fits_shape
from calibrant.calibrators.result import FitResult

if TYPE_CHECKING:
    from torch import Tensor

    from calibrant.calibrators.base import Calibrator

FORMAT_VERSION = 1
ENDING = ".safetensors"
_KEY = "calibrant.calibrator"
GROUPS_KEY = "calibrant.group_calibrator"


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a file says beside the parameters."""

    format_version: int
    calibrant_version: str
    name: str
    settings: dict[str, str | bool | int | float]
    kind: Task
    num_classes: int
    class_names: tuple[str, ...] | None
    fit: FitResult


def save_calibrator(calibrator: Calibrator, path: str | os.PathLike[str]) -> None:
    """Write a fitted calibrator; the file is complete or not there.

    Args:
        calibrator: Any that was fitted.
        path: Where to; the name ends in ``.safetensors``.

    Raises:
        InputError: If the name does not end in ``.safetensors``.
        NotFittedError: If ``fit`` was not called.
        OSError: If the folder is missing or not writable.
    """
    from safetensors.torch import save

    if Path(path).suffix != ENDING:
        raise InputError(f"`path` must end in {ENDING}; got {os.fspath(path)!r}.")
    header = header_of(calibrator)
    tensors: dict[str, Tensor] = {
        name: value.detach().cpu().contiguous() for name, value in calibrator.named_buffers()
    }
    text = json.dumps(asdict(header), allow_nan=False)
    with atomic_write(path) as temporary:
        temporary.write_bytes(save(tensors, metadata={_KEY: text}))  # a full disk is an OSError so


def header_of(calibrator: Calibrator) -> Header:
    """What its file says beside the parameters."""
    return Header(
        format_version=FORMAT_VERSION,
        calibrant_version=calibrant.__version__,
        name=calibrator.name,
        settings=calibrator.settings,
        kind=calibrator.kind_,
        num_classes=calibrator.num_classes_,
        class_names=calibrator.class_names_,
        fit=calibrator.fit_result_,
    )


def load_calibrator(path: str | os.PathLike[str]) -> Calibrator:
    """Read a calibrator that :meth:`Calibrator.save` wrote.

    Nothing in the file is executed.

    Args:
        path: A ``.safetensors`` file.

    Returns:
        The fitted calibrator, on the CPU, which predicts bit for bit what it did when it was saved.

    Raises:
        InputError: If the file is no calibrator, is damaged, or was written by a newer version.
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
    header, tensors = _read(path)
    return restored(path, header, tensors)


def restored(path: str | os.PathLike[str], header: Header, tensors: dict[str, Tensor]) -> Calibrator:
    """The calibrator of a header and its parameters, which are checked."""
    from calibrant.calibrators.roster import CALIBRATORS

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
        tensors,
        header.fit,
        kind=header.kind,
        num_classes=header.num_classes,
        class_names=header.class_names,
    )
    return calibrator


def _read(path: str | os.PathLike[str]) -> tuple[Header, dict[str, Tensor]]:
    """Header and parameters, as far as they can be checked without knowing the calibrator."""
    from pydantic import TypeAdapter, ValidationError

    content, tensors = read_metadata(path, _KEY, "a calibrator")
    try:
        return TypeAdapter(Header).validate_python(content), tensors
    except ValidationError as error:
        raise damaged(path, "its header does not have the form of a calibrator's") from error


def read_metadata(
    path: str | os.PathLike[str], key: str, what: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What stands in a file under a key, and its tensors; ``what`` it should be is said in errors."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}

        text = metadata.get(key)
        tensors = load_file(path) if text else {}
    except SafetensorError as error:
        raise InputError(
            f"{path} is not a safetensors file, or is damaged; name one that `calibrant fit` wrote."
        ) from error
    if text is None:
        raise InputError(
            f"{path} is a safetensors file, but not {what} that calibrant saved{_or_else(metadata)}."
        )
    try:
        content: Any = json.loads(text)
        version = content["format_version"]
        if isinstance(version, int) and version > FORMAT_VERSION:
            written_by = content.get("calibrant_version", "newer")
            raise InputError(f"{path} was written by calibrant {written_by}; upgrade calibrant to read it.")
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, "its header does not have the form of a calibrator's") from error
    return content, tensors


def holds_groups(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds calibrators of groups; what is no such file at all does not."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        return False
    try:
        with safe_open(path, framework="pt") as file:
            return GROUPS_KEY in (file.metadata() or {})
    except SafetensorError:
        return False


def _or_else(metadata: Mapping[str, str]) -> str:
    """By which function the other kind of file is read."""
    if GROUPS_KEY in metadata:
        return "; it holds those of groups: calibrant.calibrators.load_group_calibrator reads it"
    return "; it holds a single one: calibrant.load_calibrator reads it" if _KEY in metadata else ""


def damaged(path: str | os.PathLike[str], why: str) -> InputError:
    """The error of a file that cannot be what it should."""
    return InputError(f"{os.fspath(path)} is damaged: {why}.")
