"""What the papers call data sets, networks and methods, and how their names are found in a run's settings."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest, parse_call

Level: TypeAlias = Literal["dataset", "model", "method", "calibrator"]
LEVELS: tuple[Level, ...] = ("dataset", "model", "method", "calibrator")
FOREIGN = "evaluation.out_of_distribution"
_SECTIONS = {"dataset": "datasets", "model": "models", "method": "methods"}
_SETTINGS = {"dataset": "data.name", "model": "model", "method": "loss"}


@cache
def roster() -> Mapping[str, Any]:
    """What ``names.toml`` declares."""
    return tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


def networks(name: str) -> list[tuple[str, str]]:
    """A paper's data sets, each with a network, in its order.

    Raises:
        InputError: If there is no such list.
    """
    known = roster()["networks"]
    if name not in known:
        raise InputError(f"there are no networks {name!r}{nearest(name, known)}")
    return [(dataset, model) for dataset, model in known[name]]


def title(name: str) -> str:
    """A paper's name for something as it stands at the head of a column."""
    found: str = roster()["titles"].get(name, name)
    return found


def meant_by_lost(paper: str, dataset: str, method: str) -> str:
    """What a method probably is whose name the text of a table has lost; any other as it is.

    Example:
        >>> meant_by_lost("komisarenko-kull-2024", "CIFAR-10", "focal(gamma=?)")
        'focal(gamma=3)'
    """
    found: str = roster()["lost"].get(paper, {}).get(dataset, {}).get(method, method)
    return found


def setting_of(level: str) -> str:
    """The setting in which a run says what it is."""
    return _SETTINGS.get(level, level)


def accepts(level: str, value: Any, settings: Mapping[str, Any]) -> bool:
    """Whether a run's settings are what a paper calls ``value``, or have it where ``level`` is a setting.

    Example:
        >>> settings = {"loss": "focal", "data.name": "/data/cifar10", "model": "cifar-resnet(depth=50)"}
        >>> [accepts("method", name, settings) for name in ("focal(gamma=3)", "focal(gamma=1)")]
        [True, False]
        >>> accepts("dataset", "CIFAR-10", settings), accepts("model", "ResNet-50", settings)
        (True, True)
    """
    if level == "calibrator":
        return True
    if level == "dataset":
        inside, _, outside = str(value).partition("/")
        return _is_set(inside, settings.get("data.name")) and (
            not outside or _is_set(outside, settings.get(FOREIGN))
        )
    if level in _SECTIONS:
        wanted = roster()[_SECTIONS[level]].get(value, ())
        return any(means(str(settings.get(setting_of(level))), each, level) for each in wanted)
    return settings.get(level) == value


def stand_ins(keys: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """What of a run stands in for the paper's own data set or network, as a remark.

    Example:
        >>> stand_ins({"dataset": "CIFAR-10"}, {"data.name": "cifar10_jpeg"})
        ['CIFAR-10 is cifar10_jpeg here']
    """
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
    """The last part of a path, without its ending, settings, dashes and capitals."""
    last = name.partition("(")[0].rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    return last.partition(".")[0].replace("_", "").replace("-", "").lower()


@lru_cache(maxsize=4096)
def means(text: str, wanted: str, level: str) -> bool:
    """Whether a call has the name and the settings of another, its defaults included.

    Example:
        >>> means("sample-focal", "sample-focal(gammas=(5, 3))", "method")
        True
        >>> means("mypackage:loss", "focal", "method")
        False
    """
    try:
        name, settings = parse_call(text)
    except InputError:  # of another module
        return False
    asked, those = parse_call(wanted)
    if name != asked:
        return False
    known = {**_defaults(name, level), **settings}
    return all(key in known and same(known[key], value) for key, value in those.items())


def call_setting(text: str, setting: str, level: str = "method") -> object:
    """A setting of a loss or network, its default included; None if it has none of that name.

    Example:
        >>> call_setting("focal-calibration(gamma=2)", "calibration_weight")
        0.5
    """
    try:
        name, settings = parse_call(text)
    except InputError:
        return None
    return {**_defaults(name, level), **settings}.get(setting)


@cache
def _defaults(name: str, level: str) -> Mapping[str, object]:
    """What a loss or network is built with if nothing is said."""
    if level == "method":
        from calibrant import losses

        kind: Any = type(losses.build(name)) if name in losses.available() else None
    else:
        from calibrant_lab.models.roster import MODELS

        kind = MODELS.get(name)
    if kind is None:
        return {}
    parameters = inspect.signature(kind).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def same(one: object, other: object) -> bool:
    """Whether two values are alike, a list and a tuple included.

    Example:
        >>> same([5, 3.0], (5.0, 3)), same(1, True)
        (True, False)
    """
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
