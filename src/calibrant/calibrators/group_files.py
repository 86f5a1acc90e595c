"""Calibrators of groups as one file: every calibrator as in a file of its own, under one header."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant.calibrators.by_group import GroupCalibrator
from calibrant.calibrators.files import (
    ENDING,
    FORMAT_VERSION,
    GROUPS_KEY,
    Header,
    damaged,
    header_of,
    read_metadata,
    restored,
)

if TYPE_CHECKING:
    from torch import Tensor

    from calibrant.calibrators.base import Calibrator


def save_group_calibrator(calibrator: GroupCalibrator, path: str | os.PathLike[str]) -> None:
    """Write calibrators of groups; the file is complete or not there.

    Args:
        calibrator: From :func:`fit_groups`.
        path: Where to; the name ends in ``.safetensors``.

    Raises:
        InputError: If the name does not end in ``.safetensors``.
        OSError: If the folder is missing or not writable.
    """
    from safetensors.torch import save

    if Path(path).suffix != ENDING:
        raise InputError(f"`path` must end in {ENDING}; got {os.fspath(path)!r}.")
    parts = [calibrator.pooled, *calibrator.by_group.values()]
    tensors = {
        f"{place}.{name}": value.detach().cpu().contiguous()
        for place, part in enumerate(parts)
        for name, value in part.named_buffers()
    }
    content = {
        "format_version": FORMAT_VERSION,
        "groups": list(calibrator.by_group),
        "borrowed": calibrator.borrowed,
        "unknown": calibrator.unknown,
        "parts": [asdict(header_of(part)) for part in parts],
    }
    text = json.dumps(content, allow_nan=False)
    with atomic_write(path) as temporary:
        temporary.write_bytes(save(tensors, metadata={GROUPS_KEY: text}))


def load_group_calibrator(path: str | os.PathLike[str]) -> GroupCalibrator:
    """Read calibrators of groups that :meth:`GroupCalibrator.save` wrote.

    Nothing in the file is executed.

    Args:
        path: A ``.safetensors`` file.

    Returns:
        The fitted calibrators, on the CPU.

    Raises:
        InputError: If the file holds no calibrators of groups, is damaged, or was written by a newer version.
        OSError: If it cannot be read.

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
    from pydantic import TypeAdapter, ValidationError

    content, tensors = read_metadata(path, GROUPS_KEY, "calibrators of groups")
    try:
        headers = TypeAdapter(list[Header]).validate_python(content["parts"])
        groups = TypeAdapter(list[str]).validate_python(content["groups"])
        borrowed, unknown = float(content["borrowed"]), content["unknown"]
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise damaged(path, "its header does not have the form of that of groups") from error
    if len(headers) != len(groups) + 1 or len(set(groups)) != len(groups):
        raise damaged(path, "it does not hold one calibrator for each group")
    pooled, *parts = (restored(path, header, _part(tensors, place)) for place, header in enumerate(headers))
    by_group: dict[str, Calibrator] = dict(zip(groups, parts, strict=True))
    return GroupCalibrator(pooled, by_group, borrowed=borrowed, unknown=unknown)


def _part(tensors: dict[str, Tensor], place: int) -> dict[str, Any]:
    """The tensors of one calibrator, under their own names."""
    start = f"{place}."
    return {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}


def load_either(path: str | os.PathLike[str]) -> Calibrator | GroupCalibrator:
    """A calibrator, or those of groups, whichever the file holds.

    Raises:
        InputError: If the file holds neither, is damaged, or was written by a newer version.
        OSError: If it cannot be read.
    """
    from calibrant.calibrators.files import holds_groups, load_calibrator

    return load_group_calibrator(path) if holds_groups(path) else load_calibrator(path)
