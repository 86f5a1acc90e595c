"""Reports are handed on, so what they show of a file is its name, not where it lay."""

from __future__ import annotations

import dataclasses
import re
import shlex
from typing import Any, TypeVar

from calibrant.evaluation.monitoring.result import Monitoring
from calibrant.evaluation.result import Comparison, Evaluation, Repair, Verdict

Found = TypeVar("Found", Evaluation, Comparison, Monitoring)

# Where paths may stand, beside the command. Arms and models have numbers by the thousand and no paths.
_TEXTS = {
    Evaluation: ("verdict", "notes", "settings"),
    Monitoring: ("notes", "source", "baseline"),
    Comparison: ("verdict", "short", "warnings", "notes"),
}

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


def to_share(found: Found) -> Found:
    """The same evaluation or comparison, with names of files in place of absolute paths."""
    return _cut(found)


def _cut(value: Any) -> Any:
    """Texts, and what holds them."""
    if isinstance(value, str):
        return without_folders(value)
    for kind, texts in _TEXTS.items():
        if isinstance(value, kind):
            changes = {name: _cut(getattr(value, name)) for name in texts}
            if isinstance(value, Comparison):
                changes["models"] = tuple(
                    dataclasses.replace(each, name=_cut(each.name)) for each in value.models
                )
            command = None if value.command is None else command_to_share(value.command)
            return dataclasses.replace(value, command=command, **changes)
    if isinstance(value, Verdict) and value.commands:
        commands = tuple(command_to_share(each) for each in value.commands)
        return dataclasses.replace(_cut(dataclasses.replace(value, commands=())), commands=commands)
    if isinstance(value, Repair):
        return dataclasses.replace(value, file=None if value.file is None else _PATH.sub("", value.file))
    if isinstance(value, tuple):
        return tuple(_cut(each) for each in value)  # pyright: ignore[reportUnknownVariableType]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{each.name: _cut(getattr(value, each.name)) for each in dataclasses.fields(value)}
        )
    return value
