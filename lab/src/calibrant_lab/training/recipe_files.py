"""Files of recipes and grids: search by name, extension, and nested tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest

Kind: TypeAlias = Literal["recipe", "grid"]


def shelf(kind: Kind = "recipe") -> Path:
    """Return the folder of recipes or grids: in the package, or at the root of a clone."""
    package = Path(__file__).parents[1]
    inside = package / f"{kind}s"
    return inside if inside.is_dir() else package.parents[1] / f"{kind}s"


def names_on_shelf(kind: Kind = "recipe") -> list[str]:
    return sorted(path.stem for path in shelf(kind).glob("*.toml"))


def file_on_shelf(path: Path, kind: Kind = "recipe") -> Path:
    """Return the file of a recipe or grid: the path, or a bundled file of that name."""
    if path.suffix or len(path.parts) != 1 or path.exists():
        return path
    names = names_on_shelf(kind)
    if path.name not in names:
        listed = " `calibrant train --list` lists them." if kind == "recipe" else ""
        raise InputError(
            f"{path.name} is neither a file nor the name of a {kind}{nearest(path.name, names)}{listed}"
        )
    return shelf(kind) / f"{path.name}.toml"


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ``changes`` into ``base``, table by table."""
    both = dict(base)
    for name, value in changes.items():
        kept = both.get(name)
        both[name] = merged(kept, value) if isinstance(kept, dict) and isinstance(value, dict) else value
    return both


def flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return every entry by its full name, such as ``data.name``."""
    found: dict[str, Any] = {}
    for name, entry in content.items():
        inside = flat(entry) if isinstance(entry, dict) else None
        found |= {name: entry} if inside is None else {f"{name}.{key}": each for key, each in inside.items()}
    return found


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat settings as nested tables; the inverse of :func:`flat`."""
    content: dict[str, Any] = {}
    for key, value in settings.items():
        *tables, name = key.split(".")
        inside = content
        for table in tables:
            inside = inside.setdefault(table, {})
        inside[name] = value
    return content


def toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}.") from error


def read_content(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read a TOML file over the file in its ``extends``, relative to its folder; ``above`` extend it."""
    content = read_toml(path)
    if "extends" not in content:
        return content
    given = content.pop("extends")
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
    return merged(read_content(base, seen), content)
