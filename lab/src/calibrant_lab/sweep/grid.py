"""Grids, read from TOML: every combination of some settings' values."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant_lab.sweep.matching import Wanted, check_matched, check_names, matches
from calibrant_lab.sweep.tasks.task import Fingerprints, Item, Settings, Task, canonical, make_item
from calibrant_lab.sweep.tasks.training import task_named
from calibrant_lab.training import Recipe, recipe_files
from calibrant_lab.training.recipe import Budget, settings_at
from calibrant_lab.training.recipe_files import flat

_SHOWN = 6  # values of a setting in a message
_KEYS = ("task", "recipe", "settings", "axes", "zip", "exclude", "override")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One combination: its values of the grid's ``axes``, and all ``settings``."""

    axes: Mapping[str, Any]
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Every combination of the values of some settings.

    Example:
        >>> grid = Grid.read({"axes": {"loss": ["brier", "focal(gamma=3)"], "seed": [0, 1]}})
        >>> [tuple(point.axes.values()) for point in grid.points][1:3]
        [('brier', 1), ('focal(gamma=3)', 0)]
        >>> Grid.read({"axes": {"sead": [0]}})
        Traceback (most recent call last):
        calibrant._math.errors.InputError: grid: there is no setting sead; did you mean 'seed'?
    """

    task: Task  # the task of each point
    points: tuple[Point, ...]  # in order: the first axis varies slowest
    num_excluded: int = 0  # how many combinations the grid excludes
    num_merged: int = 0  # how many more came to the same settings as an earlier one

    @classmethod
    def read(
        cls,
        content: Mapping[str, Any],
        *,
        task: Task | None = None,
        source: str = "grid",
        folder: str | os.PathLike[str] = ".",
        budget: Budget = "full",
    ) -> Grid:
        """Validate ``content``, as TOML gives it.

        Args:
            content: The grid.
            task: What is done at each point; by default what ``content`` names.
            source: Named in messages.
            folder: Where paths begin.
            budget: ``"small"``: with the settings of the recipe's table ``small``; the settings of each point
                then say, below ``full``, what they replaced. Axes and overrides have the last word.
        """
        for key in content:
            if key not in _KEYS:
                remedy = nearest(key, _KEYS)
                if key in Recipe.model_fields:
                    remedy = f'; a grid names a recipe, as `recipe = "{Path(source).name}"` above [axes].'
                raise InputError(f"{source}: there is no entry {key!r}{remedy}")
        task = task or task_named(str(content.get("task", "training")))
        recipe = _given(content, source=source, folder=Path(folder))
        if budget == "small":
            base = settings_at(Recipe.read(recipe, source=source), budget)
        else:
            base = flat({key: value for key, value in recipe.items() if key != "small"})
        known = list(_complete(task, base, source))
        excludes = _tables(content, "exclude", source)
        overrides = [_override(each, source) for each in _tables(content, "override", source)]
        conditions = [
            *(("exclude", each) for each in excludes),
            *(("override", when) for when, _ in overrides),
        ]
        for _, wanted in conditions:
            check_names(wanted, known, source)
        found: dict[str, Point] = {}
        kept, seen = 0, list[Settings]()
        combinations = _combinations(content, known, source)
        for axes in combinations:
            given = {**base, **axes}
            settings = _complete(task, given, source)
            seen.append(settings)
            for when, changes in overrides:
                if matches(settings, when):
                    given |= changes
                    settings = _complete(task, given, source)
                    seen.append(settings)
            if not any(matches(settings, wanted) for wanted in excludes):
                kept += 1
                point = Point(axes={key: settings[key] for key in axes}, settings=settings)
                found.setdefault(_name(task, settings), point)
        for key, wanted in conditions:
            check_matched(wanted, seen, f"{source}: [[{key}]]")
        if not found:
            raise InputError(f"{source}: the grid holds no runs; every combination is excluded.")
        excluded, merged = len(combinations) - kept, kept - len(found)
        return cls(task=task, points=tuple(found.values()), num_excluded=excluded, num_merged=merged)

    def only(self, wanted: Wanted) -> Grid:
        check_names(wanted, self.points[0].settings, "--where")
        points = tuple(point for point in self.points if matches(point.settings, wanted))
        if not points:
            values = {
                name: list(dict.fromkeys(f"{each.settings[name]}" for each in self.points)) for name in wanted
            }
            there = "; ".join(
                f"{name} is {', '.join(each[:_SHOWN])}{' or another' * (len(each) > _SHOWN)}"
                for name, each in values.items()
            )
            raise InputError(f"--where leaves none of the {len(self.points)} runs; there {there}.")
        return replace(self, points=points)

    def without(self, known: Iterable[Settings], source: str) -> Grid:
        """Return the points that are not among known runs, listed in ``source``."""
        own = self.points[0].settings.keys()
        done = set[str]()
        for settings in known:
            if not settings.keys() <= own:
                strange = min(settings.keys() - own)
                raise InputError(f"{source} has runs of another kind: {strange} is no setting of this grid.")
            done.add(_name(self.task, self.task.complete(settings)))
        points = tuple(each for each in self.points if _name(self.task, each.settings) not in done)
        return replace(self, points=points)

    def items(self, fingerprints: Fingerprints | None = None) -> tuple[Item, ...]:
        known, found = fingerprints or Fingerprints(), list[Item]()
        for point in self.points:
            try:
                found.append(make_item(self.task, point.settings, point.axes, known))
            except InputError as error:
                values = ", ".join(f"{name}={value}" for name, value in point.axes.items())
                raise InputError(f"{values}: {error}") from None
        return tuple(found)


def load_grid(path: str | os.PathLike[str], *, budget: Budget = "full") -> Grid:
    """Read a grid from a TOML file, or a bundled one by name; see :meth:`Grid.read`."""
    path = recipe_files.file_on_shelf(Path(path), "grid")
    return Grid.read(recipe_files.read_toml(path), source=str(path), folder=path.parent, budget=budget)


def _override(table: Mapping[str, Any], source: str) -> tuple[Wanted, Settings]:
    for key in table:
        if key not in {"when", "set"}:
            raise InputError(f"{source}: [[override]] has `when` and `set`; got {key!r}.")
    when, changes = table.get("when"), table.get("set")
    if not isinstance(when, dict) or not isinstance(changes, dict) or not when or not changes:
        raise InputError(
            f'{source}: [[override]] needs both, as in `when = {{ loss = "brier" }}` and '
            '`set = { "training.epochs" = 30 }`.'
        )
    return flat(when), flat(changes)


def _complete(task: Task, settings: Settings, source: str) -> Settings:
    try:
        return task.complete(settings)
    except InputError as error:
        raise InputError(f"{source}: {str(error).removeprefix('grid: ')}") from None


def _name(task: Task, settings: Settings) -> str:
    """Return a name shared by all settings with equal numbers."""
    return canonical(task.deciding(settings))


def _given(content: Mapping[str, Any], *, source: str, folder: Path) -> dict[str, Any]:
    given = [key for key in ("recipe", "settings") if key in content]
    if len(given) > 1:
        raise InputError(f"{source}: `recipe` and [settings] exclude each other.")
    if not given:
        return {}
    base = content[given[0]]
    if isinstance(base, dict):
        return base
    if not isinstance(base, str) or given[0] != "recipe":
        raise InputError(f"{source}: `{given[0]}` must be a table{' or a path' * (given[0] == 'recipe')}.")
    path = folder / base
    if not path.exists() and base in recipe_files.names_on_shelf():
        path = recipe_files.shelf() / f"{base}.toml"
    try:
        return recipe_files.read_content(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{source}: there is no recipe {path}; its path is relative to the grid's folder, or its name "
            "one that `calibrant train --list` has."
        ) from error


def _tables(content: Mapping[str, Any], key: str, source: str) -> list[dict[str, Any]]:
    tables = content.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) and each for each in tables):
        raise InputError(f"{source}: write [[{key}]], with double brackets, and settings below it.")
    return [each if key == "override" else flat(each) for each in tables]


def _combinations(content: Mapping[str, Any], known: Sequence[str], source: str) -> list[dict[str, Any]]:
    """Return values of the axes, the first varying slowest; zipped ones vary together."""
    axes = content.get("axes", {})
    if not isinstance(axes, dict):
        raise InputError(f"{source}: write [axes], with single brackets, and lists of values below it.")
    columns: list[list[dict[str, Any]]] = []
    seen: list[str] = []
    for table in [*({name: values} for name, values in flat(axes).items()), *_tables(content, "zip", source)]:
        check_names(table, known, source)
        for name, values in table.items():
            if not isinstance(values, list) or not values:
                raise InputError(f"{source}: {name} must be a list of values, as in [0, 1]; got {values!r}.")
            if name in seen:
                raise InputError(f"{source}: {name} is an axis twice.")
            seen.append(name)
        sizes = {name: len(values) for name, values in table.items()}
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{size} of {name}" for name, size in sizes.items())
            raise InputError(f"{source}: [[zip]] must have the same number of values of each; got {shown}.")
        columns.append([dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)])
    if not columns:
        raise InputError(f"{source}: [axes] must name settings with lists of values, as `seed = [0, 1]`.")
    return [
        {name: value for each in chosen for name, value in each.items()}
        for chosen in itertools.product(*columns)
    ]
