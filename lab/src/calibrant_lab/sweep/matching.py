"""Match settings against patterns such as ``loss=focal*``, in grids and on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.text_form import canonical_call, nearest
from calibrant_lab.training.recipe_files import toml_value

Wanted: TypeAlias = Mapping[str, Any]
"""Settings with the value that they must have, or a list of values; in texts ``*`` stands for anything."""


def matches(settings: Mapping[str, Any], wanted: Wanted) -> bool:
    """Return True if every setting has the value, or one of the values.

    Example:
        >>> matches({"loss": "focal(gamma=3)", "seed": 1}, {"loss": "focal*", "seed": [0, 1]})
        True
        >>> matches({"loss": "focal(gamma=3)", "seed": 1}, {"seed": 2})
        False
        >>> matches({"loss": "focal(gamma=3)"}, {"loss": "focal(gamma=3.0)"})
        True
    """
    return all(_has(settings.get(name), value) for name, value in wanted.items())


def check_names(wanted: Iterable[str], known: Iterable[str], where: str) -> None:
    names = list(known)
    for name in wanted:
        if name not in names:
            raise InputError(f"{where}: there is no setting {name}{nearest(name, names)}")


def check_matched(wanted: Wanted, there: Sequence[Mapping[str, Any]], where: str) -> None:
    if any(matches(settings, wanted) for settings in there):
        return
    for name, value in wanted.items():
        if not any(matches(settings, {name: value}) for settings in there):
            known = nearest(str(value), dict.fromkeys(f"{settings[name]}" for settings in there))
            raise InputError(f"{where} matches no run: none has {name} = {value!r}{known}")
    both = ", ".join(f"{name} = {value!r}" for name, value in wanted.items())
    raise InputError(f"{where} matches no run: none has all of {both}; remove it or change a value.")


def read_wanted(texts: Sequence[str], *, option: str) -> dict[str, Any]:
    """Parse options ``name=value``, with ``|`` between alternatives.

    Example:
        >>> read_wanted(["loss=focal*", "seed=0|1"], option="--where")
        {'loss': 'focal*', 'seed': [0, 1]}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f'{option} must have the form "setting=value"; got {text!r}.')
        values = [toml_value(each.strip()) for each in value.split("|")]
        found[name.strip()] = values if len(values) > 1 else values[0]
    return found


def _has(value: Any, wanted: Any) -> bool:
    if isinstance(value, list | tuple):
        value = list(value)
        if isinstance(wanted, list) and value == wanted:
            return True
    elif isinstance(wanted, list):
        return any(_has(value, each) for each in wanted)
    if isinstance(value, str) and isinstance(wanted, str):
        pattern = "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in wanted)
        return re.fullmatch(pattern, value, flags=re.DOTALL) is not None or _is_same_call(value, wanted)
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def _is_same_call(value: str, wanted: str) -> bool:
    """Return True for ``name(setting=value)`` with equal values, in any notation."""
    try:
        return "(" in wanted and canonical_call(value) == canonical_call(wanted)
    except InputError:
        return False
