"""Processes that compute are stopped when they take too long, and replaced when they fail."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from calibrant.web import workers
from calibrant.web.limits import Limits, Refusal
from calibrant.web.workers import Done, Ready, Workers


def sleeps(tell: Callable[[str, float], None]) -> None:
    tell("sleeping", 0.5)
    time.sleep(3600)


def dies(_: Callable[[str, float], None]) -> None:
    """Ends as a process does that a reader written in C brings down."""
    os._exit(11)


def refuses(_: Callable[[str, float], None]) -> None:
    raise Refusal(413, "too much.")


def swells(_: Callable[[str, float], None]) -> int:
    """Asks for more memory than there is for it."""
    return len(bytearray(3 << 30))


def adds(first: int, second: int, _: Callable[[str, float], None]) -> int:
    return first + second


async def said(by: Workers, function: Callable[..., Any], *args: Any) -> list[Any]:
    try:
        return [message async for message in by.run(function, *args)]
    except Refusal as refusal:
        return [refusal.status]


def test_the_start_of_a_process_does_not_count() -> None:
    """A process that is slow to start is waited for; its time begins when it is ready."""

    class Slow:
        """Says nothing for longer than an answer may take, then that it is ready, and the value."""

        ready = False

        def answer(self, task: object) -> Any:
            if task is None:
                return Done(3)
            time.sleep(1.5)
            self.ready = True
            return Ready()

    async def answered() -> list[Any]:
        by: Any = Workers(Limits(compute=1))
        by._free.put_nowait(Slow())
        return [message async for message in by.run(adds, 1, 2)]

    assert asyncio.run(answered()) == [Done(3)]


@pytest.mark.slow
def test_processes() -> None:
    """One that sleeps, one that dies and one that swells are refused, and the next one answers."""

    async def all_of_it() -> None:
        by = Workers(Limits(compute=30, memory=1 << 30))
        by.start()
        try:
            assert await said(by, adds, 1, 2) == [Done(3)]
            assert await said(by, refuses) == [413]
            assert await said(by, swells) == [413]
            assert by.replaced == 0
            assert await said(by, dies) == [422]
            assert by.replaced == 1
            by._limits = Limits(compute=0.5)
            assert await said(by, sleeps) == [422]
            by._limits = Limits()
            assert await said(by, adds, 3, 4) == [Done(7)]
            assert by.replaced == 2
        finally:
            by.stop()

    asyncio.run(all_of_it())


def test_too_many_wait() -> None:
    async def none_is_free() -> list[Any]:
        return await said(Workers(Limits(waiting=0)), adds, 1, 2)

    assert asyncio.run(none_is_free()) == [503]


def test_what_is_computed_is_answered_or_refused() -> None:
    class Nowhere:
        def send(self, _: object) -> None:
            """Nothing."""

    def fails(_: object) -> None:
        raise KeyError("ours")

    answer: Any = workers._answer
    assert answer(adds, (1, 2), Nowhere()) == Done(3)
    assert answer(refuses, (), Nowhere()).status == 413
    assert "KeyError: 'ours'" in answer(fails, (), Nowhere())
