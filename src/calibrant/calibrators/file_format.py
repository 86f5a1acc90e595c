"""The format of calibrator files: parameters as safetensors, everything else as JSON in the header."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from calibrant._math.checks import Task
from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant.calibrators.fitting.results import FitResult

FORMAT_VERSION = 2  # from 2 on, files hold a checksum
SINGLE_KEY = "calibrant.calibrator"
GROUPS_KEY = "calibrant.group_calibrator"
MULTI_KEY = "calibrant.multicalibrator"
DETECTION_KEY = "calibrant.detection_calibration"
_READ_BY = {
    GROUPS_KEY: "those of groups: calibrant.calibrators.load_group_calibrator",
    MULTI_KEY: "a multicalibrator: calibrant.calibrators.load_multicalibrator",
    DETECTION_KEY: "one of detections: calibrant.calibrators.load_detection_calibration",
    SINGLE_KEY: "a single one: calibrant.load_calibrator",
}
_CHECKSUM_KEY = "calibrant.sha256"
_ENDING = ".safetensors"


@dataclass(frozen=True, kw_only=True)
class Header:
    """Everything in a file but the parameters."""

    format_version: int
    calibrant_version: str
    name: str
    settings: dict[str, str | bool | int | float]
    kind: Task
    num_classes: int
    class_names: tuple[str, ...] | None
    fit: FitResult
    event_column: int = 1


class Saved:
    """Base of objects that can be saved to a file."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, which is complete or absent.

        :func:`load_calibrator`, :func:`load_group_calibrator` or :func:`load_multicalibrator` reads it back,
        and predicts bit for bit the same.

        Args:
            path: Output path; the name ends in ``.safetensors``.

        Raises:
            InputError: If the name has another ending.
            NotFittedError: If ``fit`` was not called.
            OSError: If the folder is missing or not writable.

        Example:
            >>> import tempfile, torch
            >>> from calibrant.calibrators import TemperatureScaling, load_calibrator
            >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 7 + [0] * 3)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     calibrator.save(f"{folder}/fitted.safetensors")
            ...     loaded = load_calibrator(f"{folder}/fitted.safetensors")
            >>> torch.equal(loaded.temperature, calibrator.temperature)
            True
        """
        write_file(path, *self._content())

    def _content(self) -> tuple[str, Mapping[str, Any], Mapping[str, Tensor]]:
        """Key of the header in its file, the header, and tensors."""
        raise NotImplementedError


def write_file(
    path: str | os.PathLike[str], key: str, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    if Path(path).suffix != _ENDING:
        raise InputError(f"`path` must end in {_ENDING}; got {os.fspath(path)!r}.")
    whole = file_bytes(key, content, tensors)
    with atomic_write(path) as temporary:
        temporary.write_bytes(whole)  # turns a full disk into an OSError


def file_bytes(key: str, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    from safetensors.torch import save

    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps(content, allow_nan=False)
    # One entry: several would have an arbitrary order, so equal calibrators would give different files.
    return save(plain, metadata={key: json.dumps({**content, _CHECKSUM_KEY: _checksum(key, text, plain)})})


def _checksum(key: str, text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(f"{key} {text}".encode())
    for name, value in sorted(tensors.items()):
        digest.update(f" {name} {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()


def read_file(path: str | os.PathLike[str], key: str, what: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Entry of a file under a key, and its tensors; errors mention the expected kind, ``what``."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    if not Path(path).is_file():
        raise FileNotFoundError(f"{os.fspath(path)}: no such file.")
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
        other = next(
            (f"; it holds {hint} reads it" for kind, hint in _READ_BY.items() if kind in metadata), ""
        )
        raise InputError(f"{path} is a safetensors file, but not {what} that calibrant saved{other}.")
    try:
        content: Any = json.loads(text)
        version, written_by = content["format_version"], content.get("calibrant_version", "newer")
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, "its header does not have the form of a calibrator's") from error
    if type(version) is not int or version < 1:
        raise damaged(path, f"its format has the version {version!r}")
    if version > FORMAT_VERSION:
        raise InputError(f"{path} was written by calibrant {written_by}; upgrade calibrant to read it.")
    checksum, plain = content.pop(_CHECKSUM_KEY, None), json.dumps(content)
    if version > 1 and checksum != _checksum(key, plain, tensors):
        raise damaged(path, "its content does not have the checksum that it was saved with")
    return content, tensors


def holds(path: str | os.PathLike[str], key: str) -> bool:
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        return False
    try:
        with safe_open(path, framework="pt") as file:
            return key in (file.metadata() or {})
    except SafetensorError:
        return False


def damaged(path: str | os.PathLike[str], why: str) -> InputError:
    return InputError(f"{os.fspath(path)} is damaged: {why}.")
