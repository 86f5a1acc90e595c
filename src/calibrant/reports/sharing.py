"""Results without the folders of the machine they were made on, for pages and summaries that are shared."""

from __future__ import annotations

import dataclasses
import re
import shlex
from typing import Any, TypeVar

from calibrant.evaluation.gate.result import GateError, GateResult
from calibrant.evaluation.monitoring.result import Monitoring
from calibrant.evaluation.result import Comparison, Evaluation

Found = TypeVar("Found", bound=Evaluation | Comparison | Monitoring | GateResult | GateError)

# Fields that may contain paths. Arms and models have thousands of numbers and no paths.
_TEXTS = ("verdict", "short", "warnings", "notes", "settings", "source", "baseline", "command", "error")

# From a root (/, C:\, \\host) up to the last separator before the name.
_FOLDERS = re.compile(r"(?<![\w.~/\\-])(?:[A-Za-z]:[\\/]|\\\\|/)(?:[^\s/\\'\"`]+[\\/])+(?=[^\s/\\'\"`])")

# A whole argument that is such a path, or the value of an option that is.
_PATH = re.compile(r"^(--?[\w-]+=)?(?:[A-Za-z]:[\\/]|\\\\|/).*[\\/](?=[^/\\])")


def without_folders(text: str) -> str:
    r"""A text in which absolute paths are cut to their last part.

    Example:
        >>> without_folders("in /home/ann/x/p.npz, at 1/2 and a/b.npz; C:\\Users\\ann\\q.csv")
        'in p.npz, at 1/2 and a/b.npz; q.csv'
    """
    return _FOLDERS.sub("", text)


def command_to_share(command: str) -> str:
    """A command line whose absolute paths are cut to their last part, blanks in them or not.

    Example:
        >>> command_to_share("calibrant evaluate '/home/ann/my data/p.npz' --report=/tmp/r.html")
        'calibrant evaluate p.npz --report=r.html'
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return without_folders(command)
    return shlex.join(_PATH.sub(r"\1", word) for word in words)


_HOW = {"command": command_to_share, "commands": command_to_share, "file": lambda path: _PATH.sub("", path)}
"""Functions that cut the texts of some fields; others are cut as sentences."""


def to_share(found: Found) -> Found:
    """The result with file names in place of absolute paths."""
    changes = {name: _cut(getattr(found, name), name) for name in _TEXTS if hasattr(found, name)}
    if isinstance(found, Comparison):
        changes["models"] = tuple(dataclasses.replace(each, name=_cut(each.name)) for each in found.models)
    return dataclasses.replace(found, **changes)


def _cut(value: Any, field: str = "") -> Any:
    if isinstance(value, str):
        return _HOW.get(field, without_folders)(value)
    if isinstance(value, tuple):
        return tuple(_cut(each, field) for each in value)  # pyright: ignore[reportUnknownVariableType]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value,
            **{each.name: _cut(getattr(value, each.name), each.name) for each in dataclasses.fields(value)},
        )
    return value
