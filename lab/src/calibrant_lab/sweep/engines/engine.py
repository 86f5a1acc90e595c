"""What an engine is, an executor with the face of :mod:`concurrent.futures`, and how runs end for it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.worker_processes import pin_threads
from calibrant_lab.sweep.item import Item

State: TypeAlias = Literal["done", "held", "stopped", "died"]
"""How a run ended for a worker.

``done``: its result is in the store, whatever its status. ``held``: another sweep has it. ``stopped``: it was
told to stop, and what it did is saved. ``died``: the worker broke down, and the run may be tried again.
"""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A run to be done, as a worker is told: the address of the store, and the run."""

    store: str
    item: Item


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is."""

    run: str
    share: float
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run has ended for a worker.

    Attributes:
        run: Its name.
        state: How.
        status: The status of the result, where there is one.
        reason: Why it failed or the worker died.
        seconds: Time of the whole run, earlier sessions included.
        shown: The numbers that are shown on the way, such as ``accuracy 0.931  ECE 0.021``.
        ends_all: Whether the worker died of what would end any other: a full disk.
    """

    run: str
    state: State
    status: str | None = None
    reason: str | None = None
    seconds: float = 0.0
    shown: str = ""
    ends_all: bool = False


Event: TypeAlias = Progress | Ended
Ends: TypeAlias = list[Ended]
Function: TypeAlias = Callable[..., Ends]
"""What a worker calls, with orders: :func:`calibrant_lab.sweep.engines.perform.attempt`."""


class Engine(ABC):
    """An executor of runs; left or shut down, it tells its workers to save what they are at, and ends them.

    An engine's class takes its settings as keywords with defaults, among them ``jobs``.

    Args:
        jobs: How many runs at once; by default as many as fit.
    """

    is_here: ClassVar[bool] = True
    """Whether runs are certainly done on this machine."""
    runs: int = 1
    """How many runs are submitted together, to be done one after the other."""
    jobs: int
    """How many submissions are worked on at once."""

    def __init__(self, *, jobs: int | None = None) -> None:
        if jobs is not None and jobs < 1:
            raise InputError(f"`jobs` must be at least 1; got {jobs}.")
        self._wanted, self.jobs, self.threads = jobs, jobs or 1, 1

    @property
    def window(self) -> int:
        """How many submissions there may be at once."""
        return self.jobs

    def prepare(self, orders: Sequence[Order]) -> None:
        """Settle threads and ``jobs``; called once before all else, with all that may be to do.

        Raises:
            InputError: If the runs are done on this machine, and it lacks what one needs.
        """
        needs = [(order.item.task, order.item.settings) for order in orders]
        for lacking in (task.lacking(settings) for task, settings in needs if self.is_here):
            if lacking:
                raise InputError(lacking)
        self.threads = max((task.threads(settings) for task, settings in needs), default=1)
        self.jobs = self._wanted or max(1, min(self._fitting(orders), -(-len(orders) // self.runs)))

    @abstractmethod
    def _fitting(self, orders: Sequence[Order]) -> int:
        """How many submissions there is room for."""

    @abstractmethod
    def submit(self, function: Function, /, *orders: Order) -> Future[Ends]:
        """Have a worker call a function of orders."""

    def submit_all(self, function: Function, chunks: Sequence[Sequence[Order]]) -> Sequence[Future[Ends]]:
        """The same several times, for an engine that has it cheaper together."""
        return [self.submit(function, *orders) for orders in chunks]

    @abstractmethod
    def shutdown(self) -> None:
        """Tell all workers to save what they are at, wait for them, and end them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def wait(self, futures: Collection[Future[Ends]], seconds: float) -> Collection[Future[Ends]]:
        """Those that are done, as soon as there is one, or after that time."""
        return wait(futures, seconds, FIRST_COMPLETED).done

    def reason(self, future: Future[Ends], error: Exception) -> str:
        """Why a future has an error instead of a result, as a sentence."""
        _ = future
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        return f"{said.rstrip('.')}."


@dataclass(frozen=True)
class Work:
    """A function as another machine calls it: in the folder of the sweep, where that is, by some threads."""

    function: Function
    folder: str
    threads: int

    def __call__(self, *orders: Order) -> Ends:
        """Call it."""
        with suppress(OSError):
            os.chdir(self.folder)
        pin_threads(self.threads)
        return self.function(*orders)
