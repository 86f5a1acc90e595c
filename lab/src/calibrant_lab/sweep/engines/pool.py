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
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any

from calibrant._math.worker_processes import (
    available_cores,
    available_gpus,
    changed_environment,
    pin_threads,
    pinned_threads,
)
from calibrant_lab.sweep.engines.engine import Ends, Engine, Function
from calibrant_lab.sweep.item import Item

_GRACE = 30.0
"""Seconds that a worker has to save what it is at before it is killed."""


@dataclass(kw_only=True, eq=False)
class Pool(Engine):
    """Processes on this machine, which stay from run to run; one that dies is replaced.

    Args:
        jobs: How many; by default as many as there are cores for the threads of each run, and for runs that
            use a GPU as many as there are GPUs.
    """

    _gpus: int = field(default=0, init=False)
    _seats: list[_Seat] = field(default_factory=list["_Seat"], init=False)

    def _fitting(self, items: Sequence[Item]) -> int:
        on_gpu = any(item.task.needs_gpu(item.settings) for item in items)
        self._gpus = available_gpus() if on_gpu else 0
        return self._gpus or available_cores() // self.threads

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        seat = next((each for each in self._seats if each.future.done()), None)
        if seat is None:
            environment = pinned_threads(self.threads)
            if self._gpus > 1:
                environment["CUDA_VISIBLE_DEVICES"] = _gpu_of(len(self._seats), self._gpus)
            seat = _Seat(environment, self.threads)
            self._seats.append(seat)
        return seat.submit(function, store, *items)

    def reason(self, future: Future[Ends], error: Exception) -> str:
        (process,) = [each.process for each in self._seats if each.future is future]
        if process is None or not isinstance(error, BrokenProcessPool):
            return super().reason(future, error)
        process.join()
        code = process.exitcode or 0
        if code >= 0:
            return f"its process ended with exit code {code}."
        name = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
        out_of_memory = "; the system may have run out of memory" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{out_of_memory}."

    def shutdown(self) -> None:
        """Tell all to save and end, and wait for them; a second Ctrl-C does not wait."""
        seats, self._seats = self._seats, []
        until = time.monotonic() + _GRACE
        for each in seats:
            if each.process is not None and not each.future.done():
                each.process.terminate()
            each.executor.shutdown(wait=False, cancel_futures=True)
        processes = [each.process for each in seats if each.process is not None]
        try:
            for process in processes:
                process.join(max(0.0, until - time.monotonic()))
        finally:
            for process in processes:
                process.kill()


class _Seat:
    """Where one process sits, in an executor of its own, so that its death ends no other's run."""

    process: BaseProcess | None = None
    future: Future[Ends]

    def __init__(self, environment: dict[str, str], threads: int) -> None:
        self._environment, self._threads = environment, threads
        self.executor = self._new()

    def submit(self, *call: Any) -> Future[Ends]:
        """Give the call to the process, or to a new one where there is none or it has died."""
        others = mp.active_children()
        with changed_environment(self._environment):
            try:
                self.future = self.executor.submit(_call, *call)
            except BrokenProcessPool:
                self.executor = self._new()
                self.future = self.executor.submit(_call, *call)
        self.process = next((each for each in mp.active_children() if each not in others), self.process)
        return self.future

    def _new(self) -> ProcessPoolExecutor:
        spawn = mp.get_context("spawn")
        return ProcessPoolExecutor(1, spawn, initializer=_begin, initargs=(self._threads,))


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


def _call(function: Function, store: str, *items: Item) -> Ends:
    """Call a function; where the driver has gone meanwhile, nobody waits for what it returns."""
    ends = function(store, *items)
    driver = mp.parent_process()
    if driver is not None and not driver.is_alive():
        os._exit(1)
    return ends


def _gpu_of(place: int, count: int) -> str:
    """The GPU of a worker, among those that this process sees."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = seen if len(seen) == count else [str(number) for number in range(count)]
    return names[place % count]
