"""The files that a command line names, and how they are called in tables and pages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path


def expanded(paths: Iterable[Path]) -> list[Path]:
    """The paths, with patterns such as ``*.npz`` replaced by what they match: not every shell does so."""
    found: list[Path] = []
    for path in paths:
        pattern = any(mark in path.name for mark in "*?[")
        matches = sorted(path.parent.glob(path.name)) if pattern and not path.exists() else []
        found += matches or [path]
    return found


def named(paths: Sequence[Path]) -> list[str]:
    """How files are called in a table: without the folder that they share."""
    if len(paths) < 2:
        return [str(path) for path in paths]
    shared = os.path.commonpath([path.parent.absolute() for path in paths])
    return [os.path.relpath(path, shared) for path in paths]


def stems(paths: Sequence[Path]) -> list[str]:
    """How pages of files are called, no two alike: as the files, or as the folders that tell them apart.

    Example:
        >>> stems([Path("a.npz"), Path("b.csv")])
        ['a', 'b']
        >>> stems([Path("runs/1/p.npz"), Path("runs/2/p.npz"), Path("runs/2/p.csv")])
        ['1-p.npz', '2-p.npz', '2-p.csv']
    """
    names = [path.stem for path in paths]
    if len(set(names)) == len(names):
        return names
    whole = [name.replace(os.sep, "-") for name in named(paths)]
    names = [Path(name).stem for name in whole]
    return names if len(set(names)) == len(names) else whole


def once(paths: Iterable[Path]) -> list[Path]:
    """Each file once, by its first name and in the order of these, where patterns or links name it twice.

    Example:
        >>> [path.as_posix() for path in once([Path("a.npz"), Path("b.npz"), Path("x/../a.npz")])]
        ['a.npz', 'b.npz']
    """
    found: dict[Path, Path] = {}
    for path in paths:
        found.setdefault(path.resolve(), path)
    return list(found.values())
