"""An engine without workers: one run after the other in this process, to look closely at a run."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from calibrant_lab.sweep.engines.engine import Engine, Event, Order
from calibrant_lab.sweep.engines.perform import died, perform


class Serial(Engine):
    """One run after the other, in this process."""

    def __init__(self, *, jobs: int | None = None) -> None:
        _ = jobs
        self.jobs = 1

    def run(self, orders: Sequence[Order]) -> Generator[Event]:
        """Do the runs; how far each is cannot be told meanwhile."""
        for order in orders:
            try:
                ended = perform(order)
            except OSError:
                raise
            except Exception as error:
                ended = died(order, error)
            yield ended
            if ended.state == "stopped":
                raise KeyboardInterrupt(ended.reason or "")

    def close(self) -> None:
        """There are no workers."""
