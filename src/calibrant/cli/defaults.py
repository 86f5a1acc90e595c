"""Defaults of options from ``[tool.calibrant]`` in the nearest ``pyproject.toml``.

Options of all commands stand in the table itself, those of one command in a table of its name::

    [tool.calibrant]
    bins = 20

    [tool.calibrant.check]
    max-ece = 0.03
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant.cli.help import OLD_NAMES

NAME = "pyproject.toml"


def defaults_from(folder: Path, group: Callable[[], Any]) -> dict[str, Any]:
    """The defaults of every command, by the names of its parameters, for the group's ``default_map``.

    Raises:
        InputError: If the file is not TOML, or names an option that there is not; one sentence.
    """
    file, table = _table(folder)
    if file is None:
        return {}
    commands: Mapping[str, Any] = group().commands
    general = {key: value for key, value in table.items() if not isinstance(value, dict)}
    found: dict[str, dict[str, Any]] = {name: {} for name in commands}
    for key, value in general.items():
        takers = [name for name, command in commands.items() if key in _options(command)]
        if not takers:
            every = {option for command in commands.values() for option in _options(command)}
            raise InputError(_unknown(file, "tool.calibrant", key, every))
        for name in takers:
            found[name][_options(commands[name])[key].name] = value
    for name, settings in table.items():
        if not isinstance(settings, dict):
            continue
        if name not in commands:
            raise InputError(_unknown(file, "tool.calibrant", name, set(commands)))
        options = _options(commands[name])
        for key, value in settings.items():
            if key not in options:
                raise InputError(_unknown(file, f"tool.calibrant.{name}", key, set(options)))
            found[name][options[key].name] = value
    return {name: values for name, values in found.items() if values}


def _table(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The nearest file upward that has such a table."""
    for place in (folder, *folder.parents):
        file = place / NAME
        if not file.is_file():
            continue
        try:
            with file.open("rb") as opened:
                content = tomllib.load(opened)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{file} is not TOML: {error}.") from error
        except PermissionError:
            continue
        table = content.get("tool", {}).get("calibrant")
        if isinstance(table, dict):
            return file, table
    return None, {}


def _options(command: Any) -> dict[str, Any]:
    """Options of a command by their names without dashes before, old names included."""
    found = {
        option.removeprefix("--"): each
        for each in command.params
        for option in each.opts
        if option.startswith("--") and option not in {"--help", "--version"}
    }
    for old, new in OLD_NAMES.get(command.name, {}).items():
        found.setdefault(old.removeprefix("--"), found[new.removeprefix("--")])
    return {name: values for name, values in found.items() if values}


def _unknown(file: Path, table: str, key: str, known: set[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    remedy = f"; did you mean {near[0]}?" if near else "; `calibrant COMMAND --help` lists the options."
    return f"{file}: [{table}] must hold options of commands; got {key}{remedy}"
