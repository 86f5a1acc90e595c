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
    for longer in (lambda name: str(Path(name).with_suffix("")), str):
        if len(set(names)) == len(names):
            break
        names = [longer(name).replace(os.sep, "-") for name in named(paths)]
    return names


def once(paths: Iterable[Path]) -> list[Path]:
    """Each file once, where patterns or links name it twice."""
    return list({path.resolve(): path for path in reversed(list(paths))}.values())[::-1]
