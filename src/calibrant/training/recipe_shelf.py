"""The recipes that come with calibrant, found by name."""

from __future__ import annotations

from pathlib import Path

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest


def shelf() -> Path:
    """The folder of the recipes: inside the installed package, or at the root of a clone."""
    package = Path(__file__).parents[1]
    inside = package / "recipes"
    return inside if inside.is_dir() else package.parents[1] / "recipes"


def recipe_names() -> list[str]:
    """The recipes that ``load_recipe`` knows by name.

    Example:
        >>> "digits" in recipe_names()
        True
    """
    return sorted(path.stem for path in shelf().glob("*.toml"))


def recipe_file(recipe: Path) -> Path:
    """The file of a recipe: the path itself, or, where it is a bare name and no file, that of the package's.

    Raises:
        InputError: If a bare name is neither.
    """
    if recipe.suffix or len(recipe.parts) != 1 or recipe.exists():
        return recipe
    names = recipe_names()
    if recipe.name not in names:
        raise InputError(
            f"there is no file {recipe.name}, nor a recipe of that name{nearest(recipe.name, names)} "
            "`calibrant train --list` lists them."
        )
    return shelf() / f"{recipe.name}.toml"
