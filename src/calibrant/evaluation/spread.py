"""Work on parts of tables, or images: in this process, in a pool of processes, or on Ray."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from operator import methodcaller
from typing import Any, Protocol, TypeVar

from calibrant._math.errors import InputError
from calibrant._math.machine import (
    available_cores,
    changed_environment,
    connected,
    pin_threads,
    pinned_threads,
)
from calibrant._math.text_form import named, parse_call

Item = TypeVar("Item")
Found = TypeVar("Found")

AHEAD = 2  # parts per worker that are in work or wait to be added up; memory limits it
STORE_BYTES = 2**30  # object store of a local Ray, through which the sums of tables go
RETRIES = 5  # attempts of Ray at a part whose worker died


class Spread(Protocol):
    """A parallel map: the answers come in the order of the items."""

    def __call__(self, task: Callable[[Item], Found], items: Sequence[Item], /) -> Iterator[Found]:
        """The answer for each item."""
        ...


def here(task: Callable[[Item], Found], items: Sequence[Item], /) -> Iterator[Found]:
    """Do the task in this process.

    Example:
        >>> list(here(abs, [-1, 2]))
        [1, 2]
    """
    return map(task, items)


@contextmanager
def spreading(engine: str | None, *, jobs: int | None = None) -> Generator[Spread]:
    """The parallel map of an engine: ``"serial"``, ``"pool"``, ``"ray"`` or ``'ray(address="auto")'``.

    The sums have the same bits with every engine. Ray repeats the part of a dead worker; a pool reports the
    death.

    Args:
        engine: The engine; None works in this process.
        jobs: Number of workers (default: one for each core).

    Raises:
        InputError: If there is no such engine, or a process of a pool died.

    Example:
        >>> with spreading("serial") as spread:
        ...     list(spread(abs, [-1, 2]))
        [1, 2]
    """
    name, settings = parse_call(engine or "serial")
    choose: Callable[..., Any] = named(
        name, {"serial": _serial, "pool": _pool, "ray": _ray}, "engine for tables"
    )
    if jobs is not None:
        settings = {"jobs": jobs, **settings}
    try:
        opened = choose(**settings)
    except TypeError as error:
        raise InputError(f"`engine` (--engine) {engine}: {error}.") from error
    with opened as spread:
        yield spread


@contextmanager
def _serial(*, jobs: int | None = None) -> Generator[Spread]:  # noqa: ARG001
    yield here


@contextmanager
def _pool(*, jobs: int | None = None) -> Generator[Spread]:
    workers = jobs or available_cores()
    with changed_environment(pinned_threads(1)):
        pool = ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=partial(pin_threads, 1)
        )

        def spread(task: Callable[[Item], Found], items: Sequence[Item], /) -> Iterator[Found]:
            try:
                submit, result = partial(pool.submit, task), methodcaller("result")
                yield from in_order(submit, items, ahead=AHEAD * workers, get=result)
            except BrokenProcessPool as error:
                raise InputError("a worker process died; perhaps memory ran out.") from error

        try:
            yield spread
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _ray(*, jobs: int | None = None, address: str = "") -> Generator[Spread]:
    address = address or os.environ.get("RAY_ADDRESS", "")
    with connected(address, cores=max(available_cores(), jobs or 1), store_bytes=STORE_BYTES) as ray:
        workers = jobs or max(1, int(ray.cluster_resources().get("CPU", 1.0)))
        environment = {"env_vars": pinned_threads(1)}
        do = ray.remote(_done).options(num_cpus=1, max_retries=RETRIES, runtime_env=environment)

        def answer(task: Any) -> Any:
            try:
                return ray.get(task)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                said = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise InputError(f"a part of the table could not be done: {said.rstrip('.')}.") from error

        def spread(task: Callable[[Item], Found], items: Sequence[Item], /) -> Iterator[Found]:
            kept = ray.put(task)  # once for all parts
            yield from in_order(partial(do.remote, kept), items, ahead=AHEAD * workers, get=answer)

        yield spread


def in_order(
    submit: Callable[[Item], Any], items: Sequence[Item], *, ahead: int, get: Callable[[Any], Found]
) -> Iterator[Found]:
    """The answers in the order of the items, of which at most ``ahead`` are in work.

    Example:
        >>> list(in_order(lambda item: -item, [3, 1, 2], ahead=2, get=abs))
        [3, 1, 2]
    """
    waiting = deque[Any]()
    for item in items:
        waiting.append(submit(item))
        if len(waiting) >= ahead:
            yield get(waiting.popleft())
    while waiting:
        yield get(waiting.popleft())


def _done(task: Callable[[Item], Found], item: Item) -> Found:
    pin_threads(1)
    return task(item)
