"""An engine without workers: one run after the other in this process, to look closely at a run."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from calibrant_lab.sweep.engines.engine import Ends, Engine, Function
from calibrant_lab.sweep.item import Item


@dataclass(kw_only=True, eq=False)
class Serial(Engine):
    """One run after the other, in this process, whatever ``jobs`` is; how far each is can't be told."""

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
