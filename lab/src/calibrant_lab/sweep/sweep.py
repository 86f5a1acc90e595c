"""A sweep: whatever of a grid is not done yet, by an engine, into a store."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from calibrant_lab.sweep.engines.engine import Ended, Ends, Engine, Event, Order, Progress
from calibrant_lab.sweep.engines.perform import attempt, give_up, is_covered
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
    orders = orders_of(items, store)
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
                for event in _events(free, engine, store):
                    here += isinstance(event, Ended) and event.state == "done"
                    watcher.event(_judged(event, orders, deaths))
                done = store.done()
                pending = [order for order in pending if order.item.run not in done]
    finally:
        watcher.stop()
    return _report(orders, store, here)


def orders_of(items: Sequence[Item], store: Store) -> dict[str, Order]:
    """What workers are told of each run, in whatever folder they were started."""
    address = store.address if "://" in store.address else str(Path(store.address).absolute())
    return {item.run: Order(store=address, item=item) for item in items}


def _events(orders: Sequence[Order], engine: Engine, store: Store) -> Iterator[Event]:
    """What happens while an engine does the runs, beginning in the order given."""
    waiting, running, looked = deque(orders), dict[Future[Ends], list[Order]](), time.monotonic()
    while waiting or running:
        chunks: list[list[Order]] = []
        while waiting and len(running) + len(chunks) < engine.window:
            chunks.append([waiting.popleft() for _ in range(min(engine.runs, len(waiting)))])
        if chunks:
            running.update(zip(engine.submit_all(attempt, chunks), chunks, strict=True))
        for future in engine.wait(running, store.leases.note_every):
            yield from _ends(future, running.pop(future), engine)
        if time.monotonic() - looked >= store.leases.note_every:
            runs = {order.item.run for chunk in running.values() for order in chunk}
            for run, holder in store.leases.held(runs).items():
                yield Progress(run=run, share=holder.share, words=holder.words)
            looked = time.monotonic()


def _ends(future: Future[Ends], orders: Sequence[Order], engine: Engine) -> Ends:
    """How runs ended; where their worker broke down, all are said to, and the store knows better."""
    try:
        return future.result()
    except Exception as error:  # of any library
        reason = engine.reason(future, error)
        return [Ended(run=order.item.run, state="died", reason=reason) for order in orders]


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
