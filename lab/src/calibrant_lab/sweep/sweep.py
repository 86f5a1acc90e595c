"""A sweep: whatever of a grid is not done yet, by an engine, into a store."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from calibrant_lab.sweep.engines import Ended, Ends, Engine
from calibrant_lab.sweep.item import Item
from calibrant_lab.sweep.perform import attempt, give_up, is_covered
from calibrant_lab.sweep.store.store import Store

ATTEMPTS = 3
"""How often a run is tried whose worker dies."""
_POLL = 1.0  # seconds between looks at what another sweep is doing


class Watcher:
    """Told how a sweep goes; this one does nothing."""

    def start(self, items: Sequence[Item], done: int, jobs: int) -> None:
        """``items`` are to be done; ``done`` others of the grid have been before."""

    def progress(self, run: str, share: float, words: str) -> None:
        """How far a run is."""

    def ended(self, end: Ended) -> None:
        """A run has ended for a worker."""

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
    watcher, deaths, here = watcher or Watcher(), Counter[str](), 0
    known = {item.run: item for item in items}
    pending = pending_of(items, store)
    try:
        with engine:
            engine.prepare(pending)
            watcher.start(pending, len(known) - len(pending), engine.at_once)
            while pending:
                held = store.leases.held()
                free = [item for item in pending if item.run not in held]
                if not free:
                    watcher.waiting(len(pending))
                    time.sleep(_POLL)
                for end in _ends(free, store, engine, watcher):
                    here += end.state == "done"
                    watcher.ended(_judged(end, known[end.run], store, deaths))
                done = store.done()
                pending = [item for item in pending if item.run not in done]
    finally:
        watcher.stop()
    statuses = Counter(result.status for result in store.results(status=None) if result.run in known)
    return Report(total=len(known), statuses=dict(statuses), done_here=here)


def pending_of(items: Sequence[Item], store: Store) -> list[Item]:
    """What has no result yet, or one that lacks numbers which are asked for."""
    known = {item.run: item for item in items}
    results = [each for each in store.results(status=None) if each.run in known]
    done = {each.run for each in results if is_covered(each, known[each.run])}
    return [item for run, item in known.items() if run not in done]


def _ends(items: Sequence[Item], store: Store, engine: Engine, watcher: Watcher) -> Iterator[Ended]:
    """How the runs end that an engine does, beginning in the order given."""
    address = store.address if "://" in store.address else str(Path(store.address).absolute())
    waiting, running, looked = deque(items), dict[Future[Ends], list[Item]](), time.monotonic()
    while waiting or running:
        chunks: list[list[Item]] = []
        while waiting and len(running) + len(chunks) < engine.window:
            chunks.append([waiting.popleft() for _ in range(min(engine.runs, len(waiting)))])
        if chunks:
            running.update(zip(engine.submit_all(attempt, address, chunks), chunks, strict=True))
        for future in engine.wait(running, store.leases.note_every):
            chunk = running.pop(future)
            try:
                yield from future.result()
            except Exception as error:  # of any library: the worker broke down, wherever in its runs it was
                reason = engine.reason(future, error)
                yield from [Ended(run=item.run, state="died", reason=reason) for item in chunk]
        if time.monotonic() - looked >= store.leases.note_every:
            looked = time.monotonic()
            holders = store.leases.held({item.run for chunk in running.values() for item in chunk})
            for run, holder in holders.items():
                watcher.progress(run, holder.share, holder.words)


def _judged(end: Ended, item: Item, store: Store, deaths: Counter[str]) -> Ended:
    """The end of a run; of one whose worker died too often, that it failed for good."""
    if end.state != "died":
        return end
    if end.ends_all:
        raise OSError(f"{store.address}: {end.reason} Make room, and the same command goes on.")
    deaths[end.run] += 1
    if deaths[end.run] < ATTEMPTS:
        return end
    return give_up(store.address, item, f"{end.reason} It was tried {ATTEMPTS} times.")
