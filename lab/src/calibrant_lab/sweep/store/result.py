"""``result.json`` and what an index keeps of it: summaries of all results in one file, to be read quickly."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, TypeAlias

from calibrant._math.errors import CalibrantWarning, InputError
from calibrant_lab.sweep.item import Item
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.store.places import INDEX, RESULT_FILE, RUNS, Place
from calibrant_lab.sweep.tasks.task import Outcome

FORMAT = 1
"""The version of the format of ``result.json``, which ``docs/reference/run-result.schema.json`` describes."""
_SUMMARY = tuple(each.name for each in fields(RunResult) if each.name[0] != "_")


def result_content(
    item: Item, outcome: Outcome, *, wall_seconds: float, cpu_seconds: float, sessions: int, ended: str
) -> dict[str, Any]:
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
    """The value with None for numbers that JSON cannot hold, and lists for tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


Summary: TypeAlias = dict[str, Any]


class Index:
    """The summaries of a store's results, read again only where a result is new or has changed."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: dict[str, tuple[str, Summary]] = {}
        self._damaged: dict[str, str] = {}
        self._loaded = False

    def summaries(self) -> list[Summary]:
        """The summaries of all results but damaged ones, with a warning; updates the index."""
        if not self._loaded:
            self._known, self._loaded = self._stored(), True
        stamps = self._place.stamps()
        seen = {run: stamp for run, (stamp, _) in self._known.items()} | self._damaged
        stale = [run for run, stamp in stamps.items() if seen.get(run) != stamp]
        for run in stale:
            name = f"{RUNS}/{run}/{RESULT_FILE}"
            content = self._place.read(name)
            if content is None:  # removed since they were listed
                continue
            try:
                self._known[run] = stamps[run], summary_of(content, f"{self._place.address}/{name}")
            except DamagedResultError as error:
                self._known.pop(run, None)
                self._damaged[run] = stamps[run]
                warnings.warn(str(error), CalibrantWarning, stacklevel=2)
        gone = self._known.keys() - stamps.keys()
        for run in gone:
            del self._known[run]
        if stale or gone:
            with suppress(OSError):  # a store that may only be read is read without one
                self._place.write(INDEX, self._lines().encode())
        return [summary for _, summary in self._known.values()]

    def rebuild(self) -> int:
        self._known, self._damaged, self._loaded = {}, {}, True
        return len(self.summaries())

    def _stored(self) -> dict[str, tuple[str, Summary]]:
        """What the file says; a line that cannot be read is as good as none."""
        content = self._place.read(INDEX) or b""
        lines = content.splitlines()
        found: dict[str, tuple[str, Summary]] = {}
        for line in _of_this_format(lines):
            with suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                found[entry["summary"]["run"]] = entry["stamp"], entry["summary"]
        return found

    def _lines(self) -> str:
        head = json.dumps({"format": FORMAT})
        entries = (
            json.dumps({"stamp": stamp, "summary": summary}, allow_nan=False, ensure_ascii=False)
            for stamp, summary in self._known.values()
        )
        return "\n".join([head, *entries]) + "\n"


def _of_this_format(lines: list[bytes]) -> Iterable[bytes]:
    with suppress(ValueError, InputError):
        if lines and json.loads(lines[0]) == {"format": FORMAT}:
            return lines[1:]
    return []
