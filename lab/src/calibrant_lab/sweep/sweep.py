"""Sweeps: do the rest of a grid with an engine, into a store; and a worker's part."""

from __future__ import annotations

import _thread
import errno
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from calibrant._math.errors import ConvergenceError, InputError, without_warnings
from calibrant._math.files import said_of, said_of_full_disk
from calibrant_lab.sweep.engines import Ended, Ends, Engine
from calibrant_lab.sweep.store.places import Lease
from calibrant_lab.sweep.store.store import DamagedResultError, RunSession, Store
from calibrant_lab.sweep.tasks.task import Item, Outcome, RunResult

_SHOWN = (("error", "error {:.2%}"), ("ece", "ECE {:.2%}"), ("nll", "NLL {:.3f}"))


def attempt(store: str, *items: Item) -> Ends:
    """Perform runs in a worker until a signal; raise errors outside runs."""
    ends: Ends = []
    for item in items:
        try:
            ends.append(perform(store, item, lost=_thread.interrupt_main))
        except Exception as error:
            ends.append(_died(item.run, error))
        except BaseException:  # it was told between two steps of a run that saves nothing itself
            ends.append(Ended(run=item.run, state="stopped"))
        if ends[-1].state == "stopped":
            break
    return ends


def perform(
    address: str, item: Item, *, outcome: Outcome | None = None, lost: Callable[[], None] = lambda: None
) -> Ended:
    """Do a run, unless it is done or taken, and store its result.

    ``outcome`` is its outcome, if known already. ``lost`` is called from another thread if the lease is lost,
    because this machine fell silent; it should stop the run.
    """
    store = _store(address)
    lease = store.claim(item.run, lost=lost)
    if lease is None:
        return Ended(run=item.run, state="held")
    with lease, without_warnings():
        if item.run in store and (result := store.result(item.run) if outcome else _measured(store, item)):
            return _done(result)
        session = store.begin(item.run)
        if session.is_complete:  # it was killed before it was moved to the finished ones
            store.publish(item.run)
            return _done(store.result(item.run))
        try:
            outcome = outcome or _outcome(item, session, lease)
        except KeyboardInterrupt as stop:
            session.keep()
            state = "stopped" if lease.is_ours else "held"
            return Ended(run=item.run, state=state, reason=str(stop) or None)
        return _done(store.finish(item, session, outcome))


def _died(run: str, error: Exception) -> Ended:
    of_system = isinstance(error, OSError) and (error.strerror or str(error))  # such as: no space left
    said = of_system or traceback.format_exception_only(error)[-1].strip()
    return Ended(run=run, state="died", reason=f"{said.rstrip('.')}.", ends_all=_is_full_disk(error))


def _is_full_disk(error: BaseException | None) -> bool:
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    return full or (error is not None and _is_full_disk(error.__cause__))


def _measured(store: Store, item: Item) -> RunResult | None:
    """Return an existing result, completed if it lacks numbers; None if the run must be repeated."""
    try:
        result = store.result(item.run)
        if is_covered(result, item):
            return result
        return store.amend(item, item.task.measure_again(item.settings, result))
    except (FileNotFoundError, DamagedResultError):
        store.remove(item.run)
        return None


def is_covered(result: RunResult, item: Item) -> bool:
    return result.status != "finished" or item.task.covers(result, item.settings)


def give_up(address: str, item: Item, reason: str) -> Ended:
    """Record a run as failed after its workers died; an unwritable store ends the sweep."""
    with said_of(address, "written to"):
        return perform(address, item, outcome=Outcome(status="failed", reason=reason))


@lru_cache(maxsize=4)
def _store(address: str) -> Store:
    return Store(address)


def _outcome(item: Item, session: RunSession, lease: Lease) -> Outcome:
    """Return the run's outcome, also for errors of the run itself."""

    def tell(share: float, words: str) -> None:
        session.go_on()
        lease.note(share, words)

    try:
        with said_of_full_disk(session.folder):
            outcome = item.task.run(item.settings, session.folder, tell)
    except OSError:
        raise  # a full disk or a lost mount says nothing about the run
    except Exception as error:
        reason, known = " ".join(str(error).split())[:1000], isinstance(error, InputError | ConvergenceError)
        if not known:
            (session.folder / "error.txt").write_text(traceback.format_exc(), encoding="utf-8")
        status = "diverged" if isinstance(error, ConvergenceError) else "failed"
        return Outcome(
            status=status, reason=reason if known and reason else f"{type(error).__name__}: {reason}"
        )
    if outcome.more.get("inputs", item.inputs) != item.inputs:
        reason = "the data have changed since the sweep began; start the sweep again."
        return Outcome(status="failed", reason=reason)
    return outcome


def _done(result: RunResult) -> Ended:
    numbers = [(result.value(name), form) for name, form in _SHOWN]
    shown = "  ".join(form.format(value) for value, form in numbers if value is not None)
    told: dict[str, Any] = {
        "status": result.status,
        "reason": result.reason,
        "seconds": result.wall_seconds,
        "shown": shown,
    }
    return Ended(run=result.run, state="done", **told)


ATTEMPTS = 3  # attempts at a run whose worker dies
_POLL = 1.0  # seconds between looks at what another sweep is doing


class Watcher:
    """Observer of a sweep; this one does nothing."""

    def start(self, items: Sequence[Item], done: int, jobs: int) -> None:
        """Start with ``items`` to do; ``done`` others of the grid are done."""

    def progress(self, run: str, share: float, words: str) -> None: ...

    def ended(self, end: Ended) -> None: ...

    def waiting(self, runs: int) -> None:
        """Report that only runs of other sweeps are left."""

    def stop(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Report:
    """Outcome of a sweep: counts by status over the grid, and the runs it did itself."""

    total: int
    statuses: dict[str, int]
    done_here: int

    @property
    def failed(self) -> int:
        return self.statuses.get("failed", 0)


def sweep(items: Sequence[Item], store: Store, engine: Engine, *, watcher: Watcher | None = None) -> Report:
    """Do all runs that the store lacks; wait for those of other sweeps.

    A full disk ends it with an OSError, and fails no run. Ctrl-C keeps finished runs, and saves others.
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
    known = {item.run: item for item in items}
    results = [each for each in store.results(status=None) if each.run in known]
    done = {each.run for each in results if is_covered(each, known[each.run])}
    return [item for run, item in known.items() if run not in done]


def _ends(items: Sequence[Item], store: Store, engine: Engine, watcher: Watcher) -> Iterator[Ended]:
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
            except Exception as error:  # any library's error: the worker broke down
                reason = engine.reason(future, error)
                yield from [Ended(run=item.run, state="died", reason=reason) for item in chunk]
        if time.monotonic() - looked >= store.leases.note_every:
            looked = time.monotonic()
            holders = store.leases.held({item.run for chunk in running.values() for item in chunk})
            for run, holder in holders.items():
                watcher.progress(run, holder.share, holder.words)


def _judged(end: Ended, item: Item, store: Store, deaths: Counter[str]) -> Ended:
    """Turn the end of a run into failure if its workers died too often."""
    if end.state != "died":
        return end
    if end.ends_all:
        raise OSError(f"{store.address}: {end.reason} Make room, and the same command goes on.")
    deaths[end.run] += 1
    if deaths[end.run] < ATTEMPTS:
        return end
    return give_up(store.address, item, f"{end.reason} It was tried {ATTEMPTS} times.")
