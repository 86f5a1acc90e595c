"""Worker processes: each runs one task at a time, and is replaced when stopped."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from calibrant._math.errors import InputError
from calibrant.web.limits import Limits, Refusal
from calibrant.web.work import refused

_LEAST_APART = 0.05  # seconds between two words of progress


@dataclass(frozen=True)
class Progress:
    """Current stage and the share done."""

    words: str
    share: float


@dataclass(frozen=True)
class Done:
    """Result of a task."""

    value: Any


@dataclass(frozen=True)
class Ready:
    """Message that a process has imported and loaded its needs."""


Messages: TypeAlias = AsyncGenerator[Progress | Done]
_Task: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


async def value_of(messages: Messages) -> Any:
    async with aclosing(messages):
        async for message in messages:
            if isinstance(message, Done):
                return message.value
    raise RuntimeError("a worker ended without a word")


class Workers:
    """Processes that compute in turn; every task gets the value of ``setup`` first."""

    def __init__(self, limits: Limits, *, number: int = 1, setup: Callable[[], Any] | None = None) -> None:
        self._limits, self._number, self._waiting, self._setup = limits, number, 0, setup
        self._threads = ThreadPoolExecutor(number)  # each waits for what one process says
        self._free: asyncio.Queue[_Process] = asyncio.Queue()
        self._all: set[_Process] = set()
        self.replaced = 0

    def start(self) -> None:
        for _ in range(self._number - len(self._all)):
            self._free.put_nowait(self._new())

    def first(self, function: Callable[..., Any], *args: Any) -> Any:
        """Compute before the server listens, so that errors appear at once."""
        self.start()
        process = next(iter(self._all))
        message = process.answer((function, args))
        while isinstance(message, Progress | Ready):
            message = process.answer()
        match message:
            case Done(value):
                return value
            case Refusal() as refusal:
                raise InputError(refusal.sentence)
            case None:
                raise InputError("the process that was to load the network has ended.")
            case fault:
                raise RuntimeError(fault)

    def stop(self) -> None:
        for each in self._all:
            each.end()
        self._all.clear()

    async def run(self, function: Callable[..., Any], *args: Any) -> Messages:
        """Yield the progress of ``function(*args, tell)``, and its value at the end."""
        if self._waiting >= self._limits.waiting:
            raise Refusal(503, "too many evaluations are waiting; try again in a minute.")
        self._waiting += 1
        try:
            process = await self._free.get()
        finally:
            self._waiting -= 1
        task: _Task | None = (function, args)
        loop, end = asyncio.get_running_loop(), None
        whole = False  # true if the process is usable
        try:
            while not whole:
                if end is None and process.ready:  # its start does not count
                    end = loop.time() + self._limits.compute
                message, task = await self._before(end, partial(process.answer, task)), None
                whole = not isinstance(message, Progress | Ready | None)
                match message:
                    case Ready():
                        pass
                    case Progress() | Done():
                        yield message
                    case Refusal():
                        raise message
                    case None:
                        raise Refusal(422, "the file brought the process that read it to an end.")
                    case _:
                        raise RuntimeError(f"a fault in a worker:\n{message}")
        finally:
            if not whole:
                process.end()
                self._all.discard(process)
                process = self._new()
                self.replaced += 1
            self._free.put_nowait(process)

    async def _before(self, end: float | None, answer: Callable[[], Any]) -> Any:
        try:
            async with asyncio.timeout_at(end):
                return await asyncio.get_running_loop().run_in_executor(self._threads, answer)
        except TimeoutError as error:
            most = f"{self._limits.compute:g} s"
            raise Refusal(
                422, f"the answer must take at most {most}; send fewer rows, or ask for fewer resamples."
            ) from error

    def _new(self) -> _Process:
        process = _Process(self._limits.memory, self._setup)
        self._all.add(process)
        return process


class _Process:
    def __init__(self, memory: int, setup: Callable[[], Any] | None) -> None:
        context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, memory, setup), daemon=True)
        self._process.start()
        theirs.close()
        self.ready = False

    def answer(self, task: _Task | None = None) -> Any:
        """Send a task, if any, and return the process's next message; None if it has ended."""
        try:
            if task is not None:
                self._connection.send(task)
            message = self._connection.recv()
        except (EOFError, OSError):
            return None
        except Exception:
            return traceback.format_exc()
        self.ready = True  # else it says nothing
        return message

    def end(self) -> None:
        self._process.kill()  # whoever asks it then reads an end, and nobody closes what is being read


def _serve(connection: Connection, memory: int, setup: Callable[[], Any] | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    with suppress(EOFError, KeyboardInterrupt, OSError):
        try:
            state = () if setup is None else (setup(),)
        except Exception as error:
            connection.send(refused(error) or traceback.format_exc())
            return
        if setup is None:
            warm_up()
        _limit_memory(memory)
        connection.send(Ready())
        while True:
            function, args = connection.recv()
            connection.send(_answer(function, (*state, *args), connection))


def _answer(function: Callable[..., Any], args: tuple[Any, ...], connection: Connection) -> Any:
    """Return the result, a refusal, or the traceback of a fault."""
    last = 0.0

    def tell(words: str, share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _LEAST_APART:
            last = now
            connection.send(Progress(words, share))

    try:
        return Done(function(*args, tell))
    except Exception as error:
        return refused(error) or traceback.format_exc()


def warm_up() -> None:
    """Import and compile before the first request."""
    import numpy as np

    from calibrant.evaluation import evaluate
    from calibrant.predictions import Predictions
    from calibrant.reports.html import report_text

    logits = np.random.default_rng(0).normal(size=(40, 3))
    found = evaluate(Predictions(logits=logits, labels=logits.argmax(1)), bootstrap=2, null_draws=10)
    report_text(found)


def _limit_memory(memory: int) -> None:
    """Limit the process's further memory, so that a growing file fails as an error."""
    if sys.platform != "linux":
        return
    import resource
    from pathlib import Path

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
