"""An engine without workers: one run after the other in this process, to look closely at a run."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from calibrant_lab.sweep.engines.engine import Ends, Engine, Function, Order


class Serial(Engine):
    """One run after the other, in this process; how far each is cannot be told meanwhile."""

    def __init__(self, *, jobs: int | None = None) -> None:
        _ = jobs
        super().__init__()

    def _fitting(self, orders: Sequence[Order]) -> int:
        _ = orders
        return 1

    def submit(self, function: Function, /, *orders: Order) -> Future[Ends]:
        """Call the function now."""
        future: Future[Ends] = Future()
        future.set_result(ends := function(*orders))
        if ends[-1].state == "stopped":  # Ctrl-C
            raise KeyboardInterrupt(ends[-1].reason or "")
        return future

    def shutdown(self) -> None:
        """There are no workers."""
