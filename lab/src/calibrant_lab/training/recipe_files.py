"""The content of a recipe's file, with that of the recipes that it extends."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError

_EXTENDS = "extends"


def read_content(path: Path) -> dict[str, Any]:
    """What a TOML file says, over what the file says that its ``extends`` names, relative to its folder.

    Raises:
        InputError: If a file is not TOML, extends itself in the end, or ``extends`` names no other file.
        OSError: If a file cannot be read.
    """
    return _read(path, ())


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``, table by table.

    Example:
        >>> merged({"seed": 1, "data": {"name": "digits", "train": 9}}, {"data": {"train": 5}})
        {'seed': 1, 'data': {'name': 'digits', 'train': 5}}
    """
    both = dict(base)
    for name, value in changes.items():
        kept = both.get(name)
        both[name] = merged(kept, value) if isinstance(kept, dict) and isinstance(value, dict) else value
    return both


def flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Every entry by its full name.

    Example:
        >>> flat({"seed": 1, "data": {"name": "digits"}})
        {'seed': 1, 'data.name': 'digits'}
    """
    found: dict[str, Any] = {}
    for name, entry in content.items():
        inside = flat(entry) if isinstance(entry, dict) else None
        found |= {name: entry} if inside is None else {f"{name}.{key}": each for key, each in inside.items()}
    return found


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Flat settings as the tables of a recipe; undoes :func:`flat`.

    Example:
        >>> nested({"seed": 1, "training.epochs": 3})
        {'seed': 1, 'training': {'epochs': 3}}
    """
    content: dict[str, Any] = {}
    for key, value in settings.items():
        *tables, name = key.split(".")
        inside = content
        for table in tables:
            inside = inside.setdefault(table, {})
        inside[name] = value
    return content


def _read(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}.") from error
    if _EXTENDS not in content:
        return content
    given = content.pop(_EXTENDS)
    if not isinstance(given, str) or not given or Path(given).is_absolute():
        raise InputError(
            f"{path}: `extends` must be the path of another recipe, relative to this one, such as "
            f"'base.toml'; got {given!r}."
        )
    base, seen = path.parent / given, (*above, path.resolve())
    if not base.is_file():
        raise InputError(f"{path} extends {given}, but there is no file {base}.")
    if base.resolve() in seen:
        circle = " extends ".join(each.name for each in (*seen, base))
        raise InputError(f"{path}: a recipe must not extend itself; got {circle}.")
    return merged(_read(base, seen), content)
