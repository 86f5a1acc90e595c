"""The papers' names of datasets, networks and methods, and their match with a run's settings."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.text_form import canonical_call, parse_call

LEVELS = ("dataset", "model", "method", "calibrator")
_SETTINGS = {"model": "model", "method": "loss"}


@cache
def roster() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


def label(level: str, value: Any) -> str:
    if level in LEVELS:
        return str(roster()["titles"].get(str(value), value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def accepts(level: str, value: str, settings: Mapping[str, Any]) -> bool:
    """Return True if a run's settings match the paper's name ``value``.

    Example:
        >>> settings = {"loss": "focal", "data.name": "/data/cifar10", "model": "cifar-resnet(depth=50)"}
        >>> [accepts("method", name, settings) for name in ("focal(gamma=3)", "focal(gamma=1)")]
        [True, False]
        >>> accepts("dataset", "CIFAR-10", settings), accepts("model", "ResNet-50", settings)
        (True, True)
    """
    if level == "dataset":
        inside, _, outside = value.partition("/")
        return _is_set(inside, settings.get("data.name")) and (
            not outside or _is_set(outside, settings.get("foreign.name"))
        )
    call = str(settings.get(_SETTINGS[level]))
    return any(means(call, each, level) for each in roster()[f"{level}s"].get(value, ()))


def stand_ins(keys: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Return remarks on replacements of the paper's dataset or network."""
    found: list[str] = []
    dataset, model = str(keys.get("dataset", "")).partition("/")[0], str(keys.get("model", ""))
    known, name = roster()["datasets"].get(dataset), str(settings.get("data.name"))
    if known and _plain(name) != _plain(known[0]):
        found.append(f"{dataset} is {name} here")
    calls, call = roster()["models"].get(model), str(settings.get("model"))
    if calls and not means(call, calls[0], "model"):
        found.append(f"{model} is {call} here")
    return found


def _is_set(dataset: str, name: object) -> bool:
    known = roster()["datasets"].get(dataset, ())
    return isinstance(name, str) and _plain(name) in map(_plain, known)


def _plain(name: str) -> str:
    """Return the last part of a path, without ending, settings, dashes and capitals."""
    last = name.partition("(")[0].rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    return last.partition(".")[0].replace("_", "").replace("-", "").lower()


@lru_cache(maxsize=4096)
def means(text: str, wanted: str, level: str) -> bool:
    """Return True if a call has another's name and settings, defaults included."""
    known, those = settings_of(text, level), parse_call(wanted)[1]
    inside = ", ".join(f"{key}={known.get(key)!r}" for key in those)
    call = f"{text.partition('(')[0].strip()}({inside})"
    return those.keys() <= known.keys() and _canonical(call) == _canonical(wanted)


def settings_of(text: str, level: str = "method") -> Mapping[str, object]:
    """Return a loss's or network's settings, defaults included; none from other modules."""
    try:
        name, settings = parse_call(text)
    except InputError:
        return {}
    return {**_defaults(name, level), **settings}


@cache
def _defaults(name: str, level: str) -> Mapping[str, object]:
    if level == "method":
        from calibrant import losses

        kind: Any = type(losses.build(name)) if name in losses.available() else None
    else:
        from calibrant_lab.models.roster import MODELS

        kind = MODELS.get(name)
    parameters = inspect.signature(kind).parameters.values() if kind else ()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def stage_of(known: Iterable[str], wanted: Sequence[str]) -> str | None:
    """Return the first wanted stage that is known, else one with the last one's name.

    Example:
        >>> known = ["uncalibrated", 'temperature(search="grid", objective="ece")']
        >>> stage_of(known, ['temperature(objective="ece", search="grid")', "temperature"]) == known[1]
        True
        >>> stage_of(known, ["focal-temperature"]) is None
        True
    """
    names = {_canonical(name): name for name in known}
    found = [names[call] for call in map(_canonical, wanted) if call in names]
    last = wanted[-1].partition("(")[0] if wanted else ""
    found += [name for name in names.values() if last in {"", name.partition("(")[0]}]
    return found[0] if found else None


def _canonical(call: str) -> str:
    try:
        return canonical_call(call)
    except InputError:
        return call
