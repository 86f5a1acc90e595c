"""``result.json``: what it holds, and what of it an index keeps."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from calibrant._math.errors import InputError
from calibrant_lab.sweep.item import Item
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.tasks.task import Outcome

FORMAT = 1
"""The version of the format of ``result.json``, which ``docs/reference/run-result.schema.json`` describes."""


_SUMMARY = tuple(each.name for each in fields(RunResult) if each.name[0] != "_")


def result_content(
    item: Item, outcome: Outcome, *, wall_seconds: float, cpu_seconds: float, sessions: int, ended: str
) -> dict[str, Any]:
    """What ``result.json`` holds."""
    more = dict(outcome.more)
    inputs = more.pop("inputs", item.inputs)
    return finite(
        {
            "format": FORMAT,
            "run": item.run,
            "task": item.task.name,
            "version": item.task.version,
            "measures": item.task.measures,
            "status": outcome.status,
            "reason": outcome.reason,
            "settings": dict(item.settings),
            "axes": dict(item.axes),
            "inputs": inputs,
            "metrics": outcome.metrics,
            "undefined": outcome.undefined,
            "parameters": outcome.parameters,
            "wall_seconds": round(wall_seconds, 3),
            "cpu_seconds": round(cpu_seconds, 3),
            "sessions": sessions,
            "ended": ended,
            "environment": more.pop("environment", {}),
            "more": more,
            "rows": list(outcome.rows),
        }
    )


def amended(content: Mapping[str, Any], item: Item, outcome: Outcome) -> dict[str, Any]:
    """The content of a result whose run was measured again."""
    again = {
        "measures": item.task.measures,
        "settings": dict(item.settings),
        "metrics": outcome.metrics,
        "undefined": outcome.undefined,
        "parameters": outcome.parameters,
        "more": {**content["more"], **outcome.more},
    }
    return finite({**content, **again})


class DamagedResultError(InputError):
    """A file that should be the result of a run is not, whatever the version."""


def summary_of(content: bytes, source: str) -> dict[str, Any]:
    """What an index keeps of a result: all but the rows.

    Raises:
        DamagedResultError: If it is not a result.
        InputError: If it is not one that this version of calibrant can read.
    """
    try:
        found = json.loads(content)
        written = found["format"]
        summary = {name: found[name] for name in _SUMMARY if written == FORMAT}
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedResultError(
            f"{source} is not the result of a run, so it is left out; the next sweep does that run again."
        ) from error
    if written != FORMAT:
        raise InputError(f"{source} is of format {written}; this version of calibrant reads format {FORMAT}.")
    return summary


def finite(value: Any) -> Any:
    """The same with None for numbers that JSON cannot hold, and lists for tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value
