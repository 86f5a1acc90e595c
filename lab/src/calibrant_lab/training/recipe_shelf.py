"""The recipes and the grids that come with calibrant, found by name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest

Kind: TypeAlias = Literal["recipe", "grid"]


def shelf(kind: Kind = "recipe") -> Path:
    """The folder of the recipes, or the grids: inside the installed package, or at the root of a clone."""
    package = Path(__file__).parents[1]
    inside = package / f"{kind}s"
    return inside if inside.is_dir() else package.parents[1] / f"{kind}s"


def names_on_shelf(kind: Kind = "recipe") -> list[str]:
    """The recipes that ``load_recipe`` knows by name, or the grids that ``load_grid`` does.

    Example:
        >>> "digits" in names_on_shelf(), "digits-losses" in names_on_shelf("grid")
        (True, True)
    """
    return sorted(path.stem for path in shelf(kind).glob("*.toml"))


def file_on_shelf(path: Path, kind: Kind = "recipe") -> Path:
    """The file of a recipe or grid: the path itself, or, where it is a bare name and no file, the package's.

    Raises:
        InputError: If a bare name is neither.
    """
    if path.suffix or len(path.parts) != 1 or path.exists():
        return path
    names = names_on_shelf(kind)
    if path.name not in names:
        listed = " `calibrant train --list` lists them." if kind == "recipe" else ""
        raise InputError(
            f"there is no file {path.name}, nor a {kind} of that name{nearest(path.name, names)}{listed}"
        )
    return shelf(kind) / f"{path.name}.toml"
