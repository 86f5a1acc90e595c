"""What an engine is: an executor like those of :mod:`concurrent.futures`, and how it reports on runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self, TypeAlias

from calibrant._math.errors import InputError
from calibrant_lab.sweep.item import Item

State: TypeAlias = Literal["done", "held", "stopped", "died"]
"""How a run ended for a worker.

``done``: its result is in the store, whatever its status. ``held``: another sweep has it. ``stopped``: the
worker had to stop, and what it did is saved. ``died``: the worker broke down, and the run may be tried again.
"""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is."""

    run: str
    share: float
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run has ended for a worker: how, with the status of its result if it has one, and why it failed."""

    run: str
    state: State
    status: str | None = None
    reason: str | None = None
    seconds: float = 0.0
    """Time of the whole run, earlier sessions included."""
    shown: str = ""
    """The numbers that are shown on the way, such as ``accuracy 0.931  ECE 0.021``."""
    ends_all: bool = False
    """Whether the worker died of what would end any other: a full disk."""


Event: TypeAlias = Progress | Ended
Ends: TypeAlias = list[Ended]
Function: TypeAlias = Callable[..., Ends]
"""What a worker calls, with the address of a store and runs."""


def refuse_below_one(**settings: int | None) -> None:
    for name, value in settings.items():
        if value is not None and value < 1:
            raise InputError(f"`{name}` must be at least 1; got {value}.")


@dataclass(kw_only=True, eq=False)
class Engine(ABC):
    """An executor of runs; left or shut down, it has its workers save what they are doing, and ends them.

    Its fields are the settings of the command line, and what :meth:`prepare` finds.

    Args:
        jobs: How many submissions at once; by default as many as fit.
    """

    is_here: ClassVar[bool] = True
    """Whether runs are certainly done on this machine."""
    ahead: ClassVar[int] = 1
    """The least number of submissions where ``jobs`` is not given."""
    runs: int = field(default=1, init=False)
    """How many runs are submitted together, to be done one after the other."""
    jobs: int | None = None
    at_once: int = field(default=1, init=False)
    threads: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        refuse_below_one(jobs=self.jobs)

    def prepare(self, items: Sequence[Item]) -> None:
        """Called first, with all runs: settle threads and how many at once; refuse what can't be done."""
        for item in items:
            if self.is_here and (lacking := item.task.lacking(item.settings)):
                raise InputError(lacking)
        self.threads = max((item.task.threads(item.settings) for item in items), default=1)
        fitting = self._fitting(items)
        self.at_once = self.jobs or max(1, min(fitting, -(-len(items) // self.runs)))

    @property
    def window(self) -> int:
        """How many submissions there may be."""
        return self.jobs or max(self.at_once, self.ahead)

    @abstractmethod
    def _fitting(self, items: Sequence[Item]) -> int:
        """How many submissions there is room for."""

    @abstractmethod
    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        """Have a worker call a function of a store's address and runs."""

    def submit_all(self, function: Function, store: str, chunks: Sequence[list[Item]]) -> list[Future[Ends]]:
        """Submit several chunks, for an engine that does so more cheaply together."""
        return [self.submit(function, store, *items) for items in chunks]

    def wait(self, futures: Collection[Future[Ends]], seconds: float) -> Collection[Future[Ends]]:
        """The futures that are done, as soon as there is one, or after the given seconds."""
        return wait(futures, seconds, FIRST_COMPLETED).done

    def reason(self, future: Future[Ends], error: Exception) -> str:
        """Why a future has an error instead of a result, as a sentence."""
        _ = future
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        return f"{said.rstrip('.')}."

    @abstractmethod
    def shutdown(self) -> None:
        """Have all workers save what they are doing, wait for them, and end them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


@dataclass(kw_only=True, eq=False)
class Serial(Engine):
    """One run after the other, in this process, whatever ``jobs`` is; how far each is can't be seen."""

    def __post_init__(self) -> None:
        self.jobs = 1

    def _fitting(self, items: Sequence[Item]) -> int:
        return len(items[:1])

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        """Call the function now."""
        future: Future[Ends] = Future()
        future.set_result(ends := function(store, *items))
        if ends[-1].state == "stopped":  # Ctrl-C
            raise KeyboardInterrupt(ends[-1].reason or "")
        return future

    def shutdown(self) -> None:
        """There are no workers."""
