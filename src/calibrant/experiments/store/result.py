"""What a finished run leaves: ``result.json``, and how it is read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant.experiments.item import Item
from calibrant.experiments.tasks.task import Outcome, Status

FORMAT = 1
"""Of ``result.json``, which ``docs/reference/run-result.schema.json`` describes."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A run that has come to its end.

    Attributes:
        run: Its name in the store.
        task: What was done, as ``training``.
        version: Of the task's numbers.
        status: ``finished``, ``diverged`` or ``failed``.
        reason: Why it diverged or failed.
        settings: All settings, by full names.
        axes: Those that the grid varied that the run was first part of.
        inputs: Fingerprints of the data.
        metrics: Numbers of the test split by stage (``uncalibrated``, then the calibrators) and name; None
            where a number is not defined.
        undefined: Why numbers are None, by stage and name.
        parameters: What was fitted, by stage.
        wall_seconds: Time that it took, all its sessions together.
        cpu_seconds: The same of all processor cores together.
        sessions: How often it was begun or resumed.
        ended: When it ended, UTC, as ISO 8601.
        environment: Versions and device.
        more: What only some tasks have.
    """

    run: str
    task: str
    version: int
    status: Status
    reason: str | None
    settings: Mapping[str, Any]
    axes: Mapping[str, Any]
    inputs: Mapping[str, str]
    metrics: Mapping[str, Mapping[str, float | None]]
    undefined: Mapping[str, Mapping[str, str]]
    parameters: Mapping[str, Mapping[str, Any]]
    wall_seconds: float
    cpu_seconds: float
    sessions: int
    ended: str
    environment: Mapping[str, Any]
    more: Mapping[str, Any]
    _rows: Callable[[], Sequence[Mapping[str, Any]]] = field(default=tuple, repr=False, compare=False)
    _file: Callable[[str], Path] | None = field(default=None, repr=False, compare=False)

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """What was recorded after each epoch; read from the store when asked for."""
        return self._rows()

    def value(self, name: str, stage: str | None = None) -> float | None:
        """A number, or None where it is not defined or the run has no such number.

        Args:
            name: As ``ece``.
            stage: As ``temperature``; by default the first.
        """
        stage = next(iter(self.metrics), "") if stage is None else stage
        return self.metrics.get(stage, {}).get(name)

    def file(self, name: str) -> Path:
        """A file of the run's folder, such as ``predictions.npz``, on this machine.

        Raises:
            FileNotFoundError: If there is none.
        """
        path = None if self._file is None else self._file(name)
        if path is None or not path.exists():
            raise FileNotFoundError(f"run {self.run} holds no {name}.")
        return path


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


def summary_of(content: bytes, source: str) -> dict[str, Any]:
    """What an index keeps of a result: all but the rows.

    Raises:
        InputError: If it is no result that this version of calibrant can read.
    """
    try:
        found = json.loads(content)
        if found["format"] != FORMAT:
            raise InputError(
                f"{source} is of format {found['format']}; this version of calibrant reads format {FORMAT}."
            )
        return {name: found[name] for name in _SUMMARY}
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{source} is not the result of a run.") from error


def finite(value: Any) -> Any:
    """The same with None for numbers that JSON cannot hold, and lists for tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value
