"""A sweep: whatever of a grid is not done yet, by an engine, into a store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from calibrant_lab.sweep.engines.engine import Ended, Engine, Event, Order
from calibrant_lab.sweep.engines.perform import give_up, is_covered
from calibrant_lab.sweep.item import Item
from calibrant_lab.sweep.store.store import Store

ATTEMPTS = 3
"""How often a run is tried whose worker dies."""
_POLL = 1.0  # seconds between looks at what another sweep is doing


class Watcher:
    """Told how a sweep goes; this one does nothing."""

    def start(self, items: Sequence[Item], done: int, jobs: int) -> None:
        """``items`` are to be done; ``done`` others of the grid have been before."""

    def event(self, event: Event) -> None:
        """News of a run."""

    def waiting(self, runs: int) -> None:
        """All that is left is done by other sweeps at this moment."""

    def stop(self) -> None:
        """Nothing will follow."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a sweep came to: how many runs of the grid have which status, and which of them it did itself."""

    total: int
    statuses: dict[str, int]
    done_here: int

    @property
    def failed(self) -> int:
        """Runs that failed; diverged ones have not."""
        return self.statuses.get("failed", 0)


def sweep(items: Sequence[Item], store: Store, engine: Engine, *, watcher: Watcher | None = None) -> Report:
    """Do what is not done; waits for runs that other sweeps are doing.

    Args:
        items: Of :meth:`calibrant_lab.sweep.grid.Grid.items`.
        store: Where results go; what it holds is not done again.
        engine: What does the work; entered and left here.
        watcher: Told how it goes.

    Raises:
        OSError: If the disk is full; no run has failed for that.
        KeyboardInterrupt: After Ctrl-C; what is finished is kept, and what was begun is saved.
    """
    watcher = watcher or Watcher()
    orders = {item.run: Order(store=store.address, item=item) for item in items}
    deaths: Counter[str] = Counter()
    here = 0
    pending = pending_of(orders, store)
    try:
        with engine:
            engine.prepare(pending)
            watcher.start([order.item for order in pending], len(orders) - len(pending), engine.jobs)
            while pending:
                free = _free(pending, store)
                if not free:
                    watcher.waiting(len(pending))
                    time.sleep(_POLL)
                with closing(engine.run(free)) as events:
                    for event in events:
                        here += isinstance(event, Ended) and event.state == "done"
                        watcher.event(_judged(event, orders, deaths))
                done = store.done()
                pending = [order for order in pending if order.item.run not in done]
    finally:
        watcher.stop()
    return _report(orders, store, here)


def _judged(event: Event, orders: dict[str, Order], deaths: Counter[str]) -> Event:
    """The event itself, or that a run failed for good whose worker died too often."""
    if not isinstance(event, Ended) or event.state != "died":
        return event
    if event.ends_all:
        raise OSError(f"{orders[event.run].store}: {event.reason} Make room, and the same command goes on.")
    deaths[event.run] += 1
    if deaths[event.run] < ATTEMPTS:
        return event
    return give_up(orders[event.run], f"{event.reason} It was tried {ATTEMPTS} times.")


def pending_of(orders: dict[str, Order], store: Store) -> list[Order]:
    """What has no result yet, or one that lacks numbers which are asked for."""
    results = {each.run: each for each in store.results(status=None) if each.run in orders}
    done = {run for run, result in results.items() if is_covered(result, orders[run].item)}
    return [order for run, order in orders.items() if run not in done]


def _free(pending: Sequence[Order], store: Store) -> list[Order]:
    held = store.leases.held()
    return [order for order in pending if order.item.run not in held]


def _report(orders: dict[str, Order], store: Store, here: int) -> Report:
    statuses = Counter(result.status for result in store.results(status=None) if result.run in orders)
    return Report(total=len(orders), statuses=dict(statuses), done_here=here)
