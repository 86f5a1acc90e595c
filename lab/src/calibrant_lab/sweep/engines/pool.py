"""A pool of processes on this machine, each with its share of the cores."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.worker_processes import (
    available_cores,
    available_gpus,
    changed_environment,
    pinned_threads,
)
from calibrant_lab.sweep.engines.engine import Ended, Engine, Event, Order
from calibrant_lab.sweep.engines.pool_worker import work

_GRACE = 30.0
"""Seconds that a worker has to save what it is at before it is killed."""


class Pool(Engine):
    """Processes on this machine, which stay from run to run; one that dies is replaced.

    Args:
        jobs: How many; by default as many as there are cores for the threads of each run, and for runs that
            use a GPU as many as there are GPUs.
    """

    def __init__(self, *, jobs: int | None = None) -> None:
        if jobs is not None and jobs < 1:
            raise InputError(f"`jobs` must be at least 1; got {jobs}.")
        self._wanted = jobs
        self.jobs = jobs or 1
        self._threads, self._gpus = 1, 0
        self._workers: list[_Worker] = []

    def prepare(self, orders: Sequence[Order]) -> None:
        """Divide the cores, and the GPUs where runs use them."""
        super().prepare(orders)
        self._threads = max((order.item.task.threads(order.item.settings) for order in orders), default=1)
        on_gpu = any(order.item.task.needs_gpu(order.item.settings) for order in orders)
        self._gpus = available_gpus() if on_gpu else 0
        fitting = self._gpus or max(1, available_cores() // self._threads)
        self.jobs = self._wanted or min(fitting, max(1, len(orders)))

    def run(self, orders: Sequence[Order]) -> Generator[Event]:
        """Hand out the runs as workers become free."""
        waiting = deque(orders)
        try:
            while waiting or any(worker.order for worker in self._workers):
                self._hand_out(waiting)
                yield from self._news()
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """End the workers, which have nothing to do or save it now."""
        self._stop()

    def _hand_out(self, waiting: deque[Order]) -> None:
        busy = [worker for worker in self._workers if worker.order is not None]
        free = [worker for worker in self._workers if worker.order is None]
        while waiting and len(busy) < self.jobs:
            worker = free.pop() if free else self._hire()
            with suppress(OSError):  # it has died meanwhile; the news will say so
                worker.pipe.send(waiting[0])
            worker.order = waiting.popleft()
            busy.append(worker)

    def _hire(self) -> _Worker:
        taken = {worker.place for worker in self._workers}
        place = next(number for number in range(len(taken) + 1) if number not in taken)
        environment = pinned_threads(self._threads)
        if self._gpus > 1:
            environment["CUDA_VISIBLE_DEVICES"] = _gpu_of(place, self._gpus)
        context = mp.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, self._threads), name=f"calibrant-{place}")
        with changed_environment(environment):
            process.start()
        theirs.close()
        self._workers.append(_Worker(place, process, ours))
        return self._workers[-1]

    def _news(self) -> Iterator[Event]:
        """What the workers say, and that some have died."""
        pipes: dict[Any, _Worker] = {worker.pipe: worker for worker in self._workers}
        for pipe in wait(list(pipes)):
            worker = pipes[pipe]
            try:
                event: Event = worker.pipe.recv()
            except (EOFError, OSError):
                yield from self._bury(worker)
                continue
            if isinstance(event, Ended):
                worker.order = None
            yield event

    def _bury(self, worker: _Worker) -> Iterator[Event]:
        self._workers.remove(worker)
        worker.pipe.close()
        worker.process.join()
        if worker.order is not None:
            yield Ended(run=worker.order.item.run, state="died", reason=_death(worker.process.exitcode))

    def _stop(self) -> None:
        """Tell all to save and end, and wait for them; a second Ctrl-C does not wait."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.process.terminate()
        until = time.monotonic() + _GRACE
        try:
            for worker in workers:
                worker.drain(until)
        finally:
            for worker in workers:
                if worker.process.is_alive():
                    worker.process.kill()
                worker.process.join()
                worker.pipe.close()


@dataclass(eq=False)
class _Worker:
    place: int
    process: BaseProcess
    pipe: Any
    order: Order | None = None

    def drain(self, until: float) -> None:
        """Wait for the end, reading what it still has to say, lest it wait to be heard."""
        while self.process.is_alive() and time.monotonic() < until:
            with suppress(EOFError, OSError):
                if self.pipe.poll(0.05):
                    self.pipe.recv()
                    continue
            self.process.join(0.05)


def _gpu_of(place: int, count: int) -> str:
    """The GPU of a worker, among those that this process sees."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = seen if len(seen) == count else [str(number) for number in range(count)]
    return names[place % count]


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            name = signal.Signals(-code).name
            out_of_memory = "; the system may have run out of memory" if name == "SIGKILL" else ""
            return f"its process was ended by {name}{out_of_memory}."
    return f"its process ended with exit code {code}."
