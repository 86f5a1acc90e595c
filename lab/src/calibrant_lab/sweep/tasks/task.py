"""What a task is: from settings to numbers, in a folder of its own; its runs, and what they came to."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from calibrant._math.environment import environment
from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest


class Fingerprints:
    """Expensive digests by what they are computed from; ``keep`` takes all when there is a new one."""

    def __init__(
        self, known: Mapping[str, str] | None = None, keep: Callable[[Mapping[str, str]], None] | None = None
    ) -> None:
        self._known = dict(known or {})
        self._keep = keep

    def get(self, key: object, compute: Callable[[], str]) -> str:
        """The digest that goes with ``key`` (whatever JSON can hold), computed if it is not known."""
        name = hashlib.sha256(canonical(key).encode()).hexdigest()[:32]
        if name not in self._known:
            self._known[name] = compute()
            if self._keep is not None:
                self._keep(self._known)
        return self._known[name]


def canonical(content: object) -> str:
    """JSON with one spelling."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def state_of(paths: Iterable[Path]) -> list[list[Any]]:
    """Names, sizes and times of files and of everything in folders: alike, as long as nobody changes them."""
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


Settings: TypeAlias = Mapping[str, Any]
"""Flat, by full names as ``training.epochs``; values that JSON can hold."""

Tell: TypeAlias = Callable[[float, str], None]
"""Takes the share that is done and a few words, such as ``epoch 3/20  loss 0.41``."""

Numbers: TypeAlias = Mapping[str, Mapping[str, float | None]]  # numbers by stage and name

RESULT = "result"  # the stage of a task that has but one


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a run.

    Attributes:
        metrics: Numbers by stage and name; a task without stages has the one stage ``"result"``. None stands
            for a number that is not defined or not finite.
        status: ``"diverged"`` and ``"failed"`` are results too.
        reason: Why it diverged or failed, in a sentence; for a finished run None.
        undefined: Why numbers of ``metrics`` are None, by stage and name.
        parameters: What was fitted, by stage.
        rows: What was recorded on the way, a mapping for each epoch.
        more: Anything else that JSON can hold.
    """

    metrics: Numbers = field(default_factory=dict[str, Mapping[str, float | None]])
    status: Status = "finished"
    reason: str | None = None
    undefined: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    rows: Sequence[Mapping[str, Any]] = ()
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Task(ABC):
    """Turns settings into numbers; the same settings give the same numbers.

    A task is pickled on its way to the workers, so its class must be importable there.
    """

    name: ClassVar[str]
    """As a grid names it."""
    version: ClassVar[int]
    """Raised when the same settings give other numbers than before; older runs then no longer count."""
    measures: ClassVar[int] = 1
    """Raised when finished runs are measured differently from before; they are then measured again."""
    costly: ClassVar[tuple[str, ...]] = ()
    """Settings that decide how long a run takes, beside others that hardly do."""
    files: ClassVar[Mapping[str, str]] = {}
    """What its runs leave in their folders, by name, for the README there."""

    @abstractmethod
    def complete(self, settings: Settings) -> Settings:
        """Every setting, also those left at their defaults; refuses unknown ones and impossible values."""

    @abstractmethod
    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        """Compute; called again with the same folder after an interruption, to resume from its files.

        Raises:
            KeyboardInterrupt: If it was interrupted and has saved what it needs to resume.
            InputError: If the settings cannot be carried out: the run has failed.
            ConvergenceError: If numbers stopped being finite: the run has diverged.
        """

    def deciding(self, settings: Settings) -> Settings:
        """Those of the complete settings that decide the numbers; by default all of them."""
        return settings

    def unrecorded(self, settings: Settings) -> Settings:
        """The settings of a run with the same numbers that records no more than it must on the way."""
        return settings

    def inputs(self, settings: Settings, fingerprints: Fingerprints) -> Mapping[str, str]:
        """Fingerprints of the data that the numbers depend on, by name; by default there are none."""
        return {}

    def covers(self, result: RunResult, settings: Settings) -> bool:
        """Whether a result has all numbers that settings ask for which decide the same run."""
        return result.measures == self.measures

    def measure_again(self, settings: Settings, result: RunResult) -> Outcome:
        """The numbers of a finished run from what it left, without doing it again.

        Raises:
            FileNotFoundError: If it did not leave what is needed: the run is done again.
        """
        raise FileNotFoundError(f"run {result.run} left nothing that could be measured again.")

    def threads(self, settings: Settings) -> int:
        """How many processor cores a run keeps busy."""
        return 1

    def needs_gpu(self, settings: Settings) -> bool:
        """Whether a run uses a GPU of this machine."""
        return False

    def lacking(self, settings: Settings) -> str:
        """What this machine lacks for a run, as a sentence with the remedy; by default nothing."""
        return ""

    def gpus(self, settings: Settings) -> int:
        """How many GPUs a run uses on a machine that has them."""
        return 0


IDENTITY = 1  # the version of the way in which runs are named
_DIGITS = 20


@dataclass(frozen=True, kw_only=True)
class Item:
    """One run to be done: ``settings`` (all), ``axes`` that the grid varies, and fingerprints of its data.

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
    """Find the data's fingerprints and name the run; ``settings`` are complete."""
    inputs = dict(task.inputs(settings, fingerprints))
    return Item(task=task, settings=settings, axes=axes, inputs=inputs, run=run_name(task, settings, inputs))


def run_name(task: Task, settings: Settings, inputs: Mapping[str, str]) -> str:
    """Hash of what decides a run's numbers: task and version, deciding settings, data."""
    content = [IDENTITY, task.name, task.version, task.deciding(settings), inputs]
    return hashlib.sha256(canonical(content).encode()).hexdigest()[:_DIGITS]


class Simulation(Task):
    """What is found is the one row of the result; the plain numbers of each of its ``arms`` are a stage."""

    defaults: ClassVar[Mapping[str, Any]]  # every setting but the seed, which is 0 by default

    @abstractmethod
    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        """What JSON can hold; ``arms``, if there are any, are mappings with a ``name`` or ``gamma``."""

    def complete(self, settings: Settings) -> Settings:
        return completed(settings, {"seed": 0, **self.defaults})

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        found = self.simulate(settings)
        stages = {_stage(arm): dict(_plain(arm)) for arm in found.get("arms", ())}
        metrics = stages or {RESULT: dict(_plain(found))}
        return Outcome(metrics=metrics, rows=[found], more={"environment": environment()})


def completed(settings: Settings, defaults: Mapping[str, Any]) -> Settings:
    """Settings in place of the defaults, each of the default's kind."""
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
    """The numbers among what was found, by full names such as ``test.temperature``."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _plain(value, f"{start}{name}.")
        elif value is None or (
            isinstance(value, int | float) and not isinstance(value, bool) and name != "gamma"
        ):
            yield start + name, value
