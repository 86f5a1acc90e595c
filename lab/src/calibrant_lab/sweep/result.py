"""The result of a run, as it is read from a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

Status: TypeAlias = Literal["finished", "failed", "diverged"]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A run that has come to its end.

    Attributes:
        run: Its name in the store.
        task: What was done, as ``training``.
        version: Version of the numbers that the task gives.
        measures: Version of the way in which they are measured.
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
    measures: int
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
        """A number such as ``ece``, of the first stage by default; None if it is undefined or missing."""
        stage = next(iter(self.metrics), "") if stage is None else stage
        return self.metrics.get(stage, {}).get(name)

    def file(self, name: str) -> Path:
        """A file of the run's folder, such as ``predictions.npz``, on this machine."""
        path = None if self._file is None else self._file(name)
        if path is None or not path.exists():
            raise FileNotFoundError(f"run {self.run} holds no {name}.")
        return path
