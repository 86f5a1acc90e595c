"""What an engine is, and the news that it brings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self, TypeAlias

from calibrant._math.errors import InputError
from calibrant_lab.sweep.item import Item

State: TypeAlias = Literal["done", "held", "stopped", "died"]
"""How a run ended for a worker.

``done``: its result is in the store, whatever its status. ``held``: another sweep has it. ``stopped``: it was
told to stop, and what it did is saved. ``died``: the worker broke down, and the run may be tried again.
"""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A run to be done, as a worker is told."""

    store: str
    """Address of the store."""
    item: Item


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is."""

    run: str
    share: float
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run has ended for a worker."""

    run: str
    state: State
    status: str | None = None
    """The status of the result, where there is one."""
    reason: str | None = None
    """Why it failed or the worker died."""
    seconds: float = 0.0
    """Time of the whole run, earlier sessions included."""
    shown: str = ""
    """The numbers that are shown on the way, such as ``accuracy 0.931  ECE 0.021``."""
    ends_all: bool = False
    """Whether the worker died of what would end any other: a full disk."""


Event: TypeAlias = Progress | Ended


class Engine(ABC):
    """Carries runs to workers; entered, it has them, and left, it has ended them.

    A worker calls :func:`calibrant_lab.sweep.engines.perform.perform` with each order, wherever it runs;
    nothing but events comes back, since results go to the store. An engine's class takes its settings as
    keywords with defaults, among them ``jobs``.
    """

    jobs: int
    """How many runs it does at once."""

    @abstractmethod
    def run(self, orders: Sequence[Order]) -> Generator[Event]:
        """Do the runs, beginning in the order given; each ends in one :class:`Ended`.

        Closed early, or interrupted by ``KeyboardInterrupt``, it tells the workers to save what they have
        and waits until they did.
        """

    def prepare(self, orders: Sequence[Order]) -> None:
        """Called once, with all that may be to do, before anything else: a good time to settle ``jobs``.

        Raises:
            InputError: If the runs are done on this machine, and it lacks what one needs.
        """
        for order in orders:
            if lacking := order.item.task.lacking(order.item.settings):
                raise InputError(lacking)

    @abstractmethod
    def close(self) -> None:
        """End the workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
