"""Tasks turn settings into numbers in a folder of their own; their runs and results."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.machine import environment
from calibrant._math.text_form import nearest


class Fingerprints:
    """Expensive digests by source; ``keep`` receives all when one is added."""

    def __init__(
        self, known: Mapping[str, str] | None = None, keep: Callable[[Mapping[str, str]], None] | None = None
    ) -> None:
        self._known = dict(known or {})
        self._keep = keep

    def get(self, key: object, compute: Callable[[], str]) -> str:
        """Return the digest for ``key`` (any JSON value), computed once."""
        name = hashlib.sha256(canonical(key).encode()).hexdigest()[:32]
        if name not in self._known:
            self._known[name] = compute()
            if self._keep is not None:
                self._keep(self._known)
        return self._known[name]


def canonical(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def state_of(paths: Iterable[Path]) -> list[list[Any]]:
    """Return names, sizes and times of files and folder contents, as a sign of changes."""
    found: list[list[Any]] = []
    for path in paths:
        files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
        for file in files:
            status = file.stat()
            found.append([str(file.resolve()), status.st_size, status.st_mtime_ns])
    return found


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


Status: TypeAlias = Literal["finished", "failed", "diverged"]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A completed run; ``metrics``, ``undefined``, ``parameters`` and ``more`` are as in :class:`Outcome`."""

    run: str  # its name in the store
    task: str  # its task, such as `training`
    version: int  # version of the task's numbers
    measures: int  # version of their measurement
    status: Status
    reason: str | None  # reason of a divergence or failure
    settings: Mapping[str, Any]  # all settings, by full names
    axes: Mapping[str, Any]  # axes of its first grid
    inputs: Mapping[str, str]  # fingerprints of the data
    metrics: Mapping[str, Mapping[str, float | None]]
    undefined: Mapping[str, Mapping[str, str]]
    parameters: Mapping[str, Mapping[str, Any]]
    wall_seconds: float  # time of all its sessions
    cpu_seconds: float  # processor time of all cores and sessions
    sessions: int  # number of starts and resumptions
    ended: str  # time of its end, UTC, as ISO 8601
    environment: Mapping[str, Any]  # versions and device
    more: Mapping[str, Any]
    _rows: Callable[[], Sequence[Mapping[str, Any]]] = field(default=tuple, repr=False, compare=False)
    _file: Callable[[str], Path] | None = field(default=None, repr=False, compare=False)

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        return self._rows()

    def value(self, name: str, stage: str | None = None) -> float | None:
        """Return a number such as ``ece``, by default of the first stage; None if missing."""
        stage = next(iter(self.metrics), "") if stage is None else stage
        return self.metrics.get(stage, {}).get(name)

    def file(self, name: str) -> Path:
        path = self._file(name) if self._file else None
        if path is None or not path.exists():
            raise FileNotFoundError(f"run {self.run} holds no {name}.")
        return path


Settings: TypeAlias = Mapping[str, Any]
"""Flat, by full names as ``training.epochs``; values that JSON can hold."""

Tell: TypeAlias = Callable[[float, str], None]
"""Takes the share that is done and a few words, such as ``epoch 3/20  loss 0.41``."""

RESULT = "result"  # the stage of a task that has but one


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a run."""

    metrics: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict[str, Any])
    """Numbers of the test split by stage (``uncalibrated``, then the calibrators; for a task without stages
    ``result``) and name; None is a number that is not defined or not finite."""
    status: Status = "finished"  # a result also where it is diverged or failed
    reason: str | None = None  # reason of a divergence or failure, in a sentence
    undefined: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Any])
    """Reasons for None in ``metrics``, by stage and name."""
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])
    """Fitted parameters, by stage."""
    rows: Sequence[Mapping[str, Any]] = ()  # records on the way, a mapping for each epoch
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])  # results of some tasks only: JSON values


class Task(ABC):
    """Turns settings into numbers, reproducibly.

    A task is pickled on its way to the workers, so its class must be importable there.
    """

    name: ClassVar[str]  # its name in a grid
    version: ClassVar[int]
    """Raised when the same settings give other numbers than before; older runs then no longer count."""
    measures: ClassVar[int] = 1
    """Raised when finished runs are measured differently from before; they are then measured again."""
    costly: ClassVar[tuple[str, ...]] = ()  # settings that decide how long a run takes
    files: ClassVar[Mapping[str, str]] = {}  # files that its runs leave, by name, for the README

    @abstractmethod
    def complete(self, settings: Settings) -> Settings:
        """Fill in defaults; refuse unknown settings and impossible values."""

    @abstractmethod
    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        """Compute; after an interruption, resume from the files in the same folder.

        Raises:
            KeyboardInterrupt: If it was interrupted and has saved what it needs to resume.
            InputError: If the settings cannot be carried out: the run has failed.
            ConvergenceError: If numbers stopped being finite: the run has diverged.
        """

    def deciding(self, settings: Settings) -> Settings:
        """Return the complete settings that decide the numbers; by default all."""
        return settings

    def unrecorded(self, settings: Settings) -> Settings:
        """Return settings with equal numbers and minimal records of the course."""
        return settings

    def inputs(self, settings: Settings, fingerprints: Fingerprints) -> Mapping[str, str]:
        """Return fingerprints of the input data by name; by default none."""
        return {}

    def covers(self, result: RunResult, settings: Settings) -> bool:
        """Return True if a result has all numbers for these settings of one run."""
        return result.measures == self.measures

    def measure_again(self, settings: Settings, result: RunResult) -> Outcome:
        """Recompute a finished run's numbers from its files; without them the run is done again."""
        raise FileNotFoundError(f"run {result.run} left nothing that could be measured again.")

    def threads(self, settings: Settings) -> int:
        return 1

    def gpus(self, settings: Settings) -> int:
        return 0

    def needs_gpu(self, settings: Settings) -> bool:
        return False

    def lacking(self, settings: Settings) -> str:
        """Return this machine's deficit for a run, with the remedy; by default empty."""
        return ""


IDENTITY = 1  # the version of the way in which runs are named
_DIGITS = 20


@dataclass(frozen=True, kw_only=True)
class Item:
    """A run to do: all ``settings``, the grid's ``axes``, and fingerprints of its data.

    Its name ``run`` is a hash of what decides its numbers.
    """

    task: Task
    settings: Settings
    axes: Mapping[str, Any]
    inputs: Mapping[str, str]
    run: str

    @property
    def label(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.axes.items()) or self.task.name


def make_item(task: Task, settings: Settings, axes: Mapping[str, Any], fingerprints: Fingerprints) -> Item:
    """Fingerprint the data and name the run; ``settings`` are complete."""
    inputs = dict(task.inputs(settings, fingerprints))
    return Item(task=task, settings=settings, axes=axes, inputs=inputs, run=run_name(task, settings, inputs))


def run_name(task: Task, settings: Settings, inputs: Mapping[str, str]) -> str:
    """Hash what decides a run's numbers: task and version, deciding settings, data."""
    content = [IDENTITY, task.name, task.version, task.deciding(settings), inputs]
    return hashlib.sha256(canonical(content).encode()).hexdigest()[:_DIGITS]


class Simulation(Task):
    """A task whose result is one row; the plain numbers of each of its ``arms`` form a stage."""

    defaults: ClassVar[Mapping[str, Any]]  # every setting but the seed, which is 0 by default

    @abstractmethod
    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        """Return JSON values; optional ``arms`` are mappings with a ``name`` or ``gamma``."""

    def complete(self, settings: Settings) -> Settings:
        return completed(settings, {"seed": 0, **self.defaults})

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        found = self.simulate(settings)
        stages = {_stage(arm): dict(_plain(arm)) for arm in found.get("arms", ())}
        metrics = stages or {RESULT: dict(_plain(found))}
        return Outcome(metrics=metrics, rows=[found], more={"environment": environment()})


def completed(settings: Settings, defaults: Mapping[str, Any]) -> Settings:
    """Merge settings into the defaults, converted to each default's type."""
    for name, value in settings.items():
        if name not in defaults:
            raise InputError(f"there is no setting {name}{nearest(name, defaults)}")
        kinds = (int, float) if isinstance(defaults[name], float) else type(defaults[name])
        if not isinstance(value, kinds) or isinstance(value, bool) != isinstance(defaults[name], bool):
            raise InputError(f"`{name}` must be of the kind of {defaults[name]!r}; got {value!r}.")
    return {name: type(value)(settings.get(name, value)) for name, value in defaults.items()}


def _stage(arm: Mapping[str, Any]) -> str:
    return arm["name"] if "name" in arm else f"gamma={arm['gamma']:g}"


def _plain(found: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield the plain numbers by full names such as ``test.temperature``."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _plain(value, f"{start}{name}.")
        elif value is None or (
            isinstance(value, int | float) and not isinstance(value, bool) and name != "gamma"
        ):
            yield start + name, value
