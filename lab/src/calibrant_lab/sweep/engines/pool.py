"""Processes of this machine, each with its share of the cores."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.process import BaseProcess

from calibrant._math.worker_processes import (
    available_cores,
    available_gpus,
    changed_environment,
    pin_threads,
    pinned_threads,
)
from calibrant_lab.sweep.engines.engine import Ends, Engine, Function, Order

_GRACE = 30.0
"""Seconds that a worker has to save what it is at before it is killed."""


class Pool(Engine):
    """Processes on this machine, which stay from run to run; one that dies is replaced.

    Args:
        jobs: How many; by default as many as there are cores for the threads of each run, and for runs that
            use a GPU as many as there are GPUs.
    """

    def __init__(self, *, jobs: int | None = None) -> None:
        super().__init__(jobs=jobs)
        self._gpus, self._seats = 0, list[_Seat]()

    def _fitting(self, orders: Sequence[Order]) -> int:
        on_gpu = any(order.item.task.needs_gpu(order.item.settings) for order in orders)
        self._gpus = available_gpus() if on_gpu else 0
        return self._gpus or available_cores() // self.threads

    def submit(self, function: Function, /, *orders: Order) -> Future[Ends]:
        """Give it to a process that is free, or to a new one."""
        seat = next((each for each in self._seats if each.future.done()), None)
        if seat is None:
            environment = pinned_threads(self.threads)
            if self._gpus > 1:
                environment["CUDA_VISIBLE_DEVICES"] = _gpu_of(len(self._seats), self._gpus)
            seat = _Seat(environment, self.threads)
            self._seats.append(seat)
        return seat.submit(function, *orders)

    def reason(self, future: Future[Ends], error: Exception) -> str:
        """By the exit code of its process, where that died."""
        (process,) = [each.process for each in self._seats if each.future is future]
        if process is None or not isinstance(error, BrokenProcessPool):
            return super().reason(future, error)
        process.join()
        return _death(process.exitcode)

    def shutdown(self) -> None:
        """Tell all to save and end, and wait for them; a second Ctrl-C does not wait."""
        seats, self._seats = self._seats, []
        until = time.monotonic() + _GRACE
        processes = [each.process for each in seats if each.process is not None]
        for each in seats:
            if each.process is not None and not each.future.done():
                each.process.terminate()
            if each.executor is not None:
                each.executor.shutdown(wait=False, cancel_futures=True)
        try:
            for process in processes:
                process.join(max(0.0, until - time.monotonic()))
        finally:
            for process in processes:
                process.kill()


class _Seat:
    """Where one process sits, in an executor of its own, so that its death ends no other's run."""

    executor: ProcessPoolExecutor | None = None
    process: BaseProcess | None = None
    future: Future[Ends]

    def __init__(self, environment: dict[str, str], threads: int) -> None:
        self._environment, self._threads = environment, threads

    def submit(self, function: Function, /, *orders: Order) -> Future[Ends]:
        """Give it to the process, or to a new one where it has died."""
        with suppress(BrokenProcessPool):
            if self.executor is not None:
                self.future = self.executor.submit(_call, function, *orders)
                return self.future
        spawn = mp.get_context("spawn")
        self.executor = ProcessPoolExecutor(1, spawn, initializer=_begin, initargs=(self._threads,))
        others = mp.active_children()
        with changed_environment(self._environment):
            self.future = self.executor.submit(_call, function, *orders)
        self.process = next((each for each in mp.active_children() if each not in others), None)
        return self.future


def _begin(threads: int) -> None:
    """Have the process end when it is told to, and with the driver; a training first saves what it has."""
    if hasattr(os, "setsid"):
        with suppress(OSError):
            os.setsid()  # Ctrl-C in the terminal is for the driver, which tells the workers itself
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    pin_threads(threads)
    threading.Thread(target=_follow_driver, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())


def _follow_driver() -> None:
    driver = mp.parent_process()
    if driver is not None:
        driver.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        os._exit(1)


def _call(function: Function, *orders: Order) -> Ends:
    """Call a function; where the driver has gone meanwhile, nobody waits for what it returns."""
    ends = function(*orders)
    driver = mp.parent_process()
    if driver is not None and not driver.is_alive():
        os._exit(1)
    return ends


def _gpu_of(place: int, count: int) -> str:
    """The GPU of a worker, among those that this process sees."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = seen if len(seen) == count else [str(number) for number in range(count)]
    return names[place % count]


def _death(code: int | None) -> str:
    if code is None or code >= 0:
        return f"its process ended with exit code {code}."
    name = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
    out_of_memory = "; the system may have run out of memory" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{out_of_memory}."
