"""What of a result the trackers are told, in the terms that all of them have."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from calibrant._math.errors import InputError
from calibrant_lab.sweep.result import RunResult

PROJECT = "calibrant"


def curves(result: RunResult) -> Iterator[tuple[int, dict[str, float]]]:
    """After each epoch the numbers that were recorded."""
    for place, row in enumerate(result.rows, 1):
        yield int(row.get("epoch", place)), numbers(row)


def finals(result: RunResult) -> dict[str, float]:
    """The numbers of the test split by stage and name, what was fitted, and the time that it took.

    Example:
        >>> from types import SimpleNamespace
        >>> found = {"metrics": {"uncalibrated": {"ece": 0.1, "auroc": None}}, "parameters": {}}
        >>> finals(SimpleNamespace(**found, wall_seconds=2.0, cpu_seconds=1.0))["test/uncalibrated/ece"]
        0.1
    """
    return {
        **{f"test/{name}": value for name, value in numbers(result.metrics).items()},
        **{f"fitted/{name}": value for name, value in numbers(result.parameters).items()},
        "spent/wall_seconds": result.wall_seconds,
        "spent/cpu_seconds": result.cpu_seconds,
    }


def numbers(content: Mapping[str, Any], before: str = "") -> dict[str, float]:
    """Every finite number in tables within tables, by the names on the way.

    Example:
        >>> numbers({"epoch": 1, "train": {"nll": 0.5, "label": "x"}, "bad": float("nan")})
        {'epoch': 1.0, 'train/nll': 0.5}
    """
    found: dict[str, float] = {}
    for name, value in content.items():
        path = f"{before}{plain(name)}"
        if isinstance(value, Mapping):
            found |= numbers(value, f"{path}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[path] = float(value)
    return found


def plain(name: str) -> str:
    """A name with only what every tracker allows.

    Example:
        >>> plain('temperature(objective="ece")')
        'temperature-objective-ece'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip("-")


def label(result: RunResult) -> str:
    """What tells it from the others, for people."""
    return " ".join(f"{key}={value}" for key, value in result.axes.items()) or result.run


def ended(result: RunResult) -> float:
    """When it ended, in seconds since 1970."""
    return datetime.datetime.fromisoformat(result.ended).timestamp()


def refuse(name: str, error: ImportError) -> NoReturn:
    """Say how to install the library of a sink."""
    raise InputError(f"{name} is not installed; pip install 'calibrant[{name}]' ({error}).") from error
