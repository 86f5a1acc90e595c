"""Files named on a command line, and their names in tables and pages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant._math.text_form import common_start

LONG = 20  # letters: longer names don't fit a table


def expanded(paths: Iterable[Path]) -> list[Path]:
    """Expand patterns such as ``*.npz``, which not every shell does."""
    found: list[Path] = []
    for path in paths:
        pattern = any(mark in path.name for mark in "*?[")
        matches = sorted(path.parent.glob(path.name)) if pattern and not path.exists() else []
        found += matches or [path]
    return found


def named(paths: Sequence[Path]) -> list[str]:
    if len(paths) < 2:
        return [str(path) for path in paths]
    shared = os.path.commonpath([path.parent.absolute() for path in paths])
    return [os.path.relpath(path, shared) for path in paths]


def stems(paths: Sequence[Path]) -> list[str]:
    """Return distinct page names: those of the files, or of the folders that differ.

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
    """Return each file once, under its first name and in order, despite patterns or links.

    Example:
        >>> [path.as_posix() for path in once([Path("a.npz"), Path("b.npz"), Path("x/../a.npz")])]
        ['a.npz', 'b.npz']
    """
    found: dict[Path, Path] = {}
    for path in paths:
        found.setdefault(Path(os.path.realpath(path)), path)  # which leaves links in a circle as they are
    return list(found.values())


def called(paths: list[Path], names: str | None) -> list[str]:
    """Return the name of each file: the one given by --names, or its own."""
    if names is None:
        if len(once(paths)) < len(paths):
            raise InputError("a file is given twice; name each model once.")
        return short_names(paths)
    found = [name.strip() for name in names.split(",")]
    if len(found) != len(paths) or len(set(found)) < len(found) or not all(found):
        raise InputError(f"--names must be {len(paths)} different names, separated by commas; got {names!r}.")
    return found


def short_names(files: list[Path]) -> list[str]:
    """Return file stems (for runs, folder names) if they differ, else whole paths.

    If a name is too long for a table, what all begin with is left out, up to a ``_`` or another separator
    before a letter.

    Example:
        >>> short_names([Path("runs/a.npz"), Path("runs/b.npz")])
        ['a', 'b']
        >>> short_names([Path("x/p.npz"), Path("y/p.npz")])
        ['x/p.npz', 'y/p.npz']
        >>> short_names([Path("eurosat_rgb.npz"), Path("eurosat_repaired.npz")])
        ['eurosat_rgb', 'eurosat_repaired']
        >>> short_names([Path("cifar100_resnet-50_seed-1.npz"), Path("cifar100_vgg.npz")])
        ['resnet-50_seed-1', 'vgg']
        >>> short_names([Path("resnet-18.npz"), Path("resnet-50.npz")])
        ['resnet-18', 'resnet-50']
    """
    stems = [path.resolve().name if path.is_dir() else path.stem for path in files]
    names = stems if len(set(stems)) == len(stems) else [path.as_posix() for path in files]
    if len(names) == 1 or max(map(len, names)) <= LONG:
        return names
    shared = len(common_start(names))
    cuts = [at for at in range(shared, 0, -1) if names[0][at - 1] in "_-/. "]
    cut = next((at for at in cuts if all(name[at : at + 1].isalpha() for name in names)), 0)
    return [name[cut:] for name in names]
