"""What a small budget replaces in a recipe, and that it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from calibrant._math.errors import InputError
from calibrant_lab.training.recipe import Recipe
from calibrant_lab.training.recipe_files import flat, merged

Budget: TypeAlias = Literal["full", "small"]


def at_budget(recipe: Recipe, budget: Budget) -> Recipe:
    """The recipe as it is, or with the settings of its table ``small``; ``full`` keeps what they replace.

    Raises:
        InputError: If the recipe does not say what a small budget replaces.

    Example:
        >>> recipe = Recipe.read({"training": {"epochs": 350}, "small": {"training": {"epochs": 4}}})
        >>> budget_note(at_budget(recipe, "small"))
        'small budget: training.epochs 350 → 4'
    """
    if budget == "full" or recipe.full is not None:
        return recipe
    if recipe.small is None:
        raise InputError(
            "a small budget needs a recipe that says what it replaces: a table [small] with settings such as "
            "training.epochs = 4, or an empty one if the recipe is small already."
        )
    content = recipe.model_dump(mode="json", exclude={"small", "full"})
    return Recipe.read({**merged(content, recipe.small), "full": _replaced(content, recipe.small)})


def settings_at(recipe: Recipe, budget: Budget) -> dict[str, Any]:
    """The settings at a budget by their full names, and below ``full`` those that it replaced.

    Example:
        >>> recipe = Recipe.read({"training": {"epochs": 350}, "small": {"training": {"epochs": 4}}})
        >>> settings = settings_at(recipe, "small")
        >>> settings["training.epochs"], settings["full.training.epochs"]
        (4, 350)
    """
    scaled = at_budget(recipe, budget)
    return {**scaled.settings(), **flat({"full": scaled.full or {}})}


def budget_note(recipe: Recipe) -> str | None:
    """What a small budget replaced, in a few words; None where the recipe is carried out in full."""
    if recipe.full is None:
        return None
    now = recipe.settings()
    changes = [
        f"{key} {before!r} → {now[key]!r}" for key, before in flat(recipe.full).items() if before != now[key]
    ]
    return f"small budget: {', '.join(changes)}" if changes else None


def _replaced(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ``content`` in whose place others come."""
    return {
        name: _replaced(content[name], value) if isinstance(value, dict) else content[name]
        for name, value in changes.items()
    }
