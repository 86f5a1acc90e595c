"""Work on the parts of a table shared out by an engine, with the answers in the order of the parts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

from calibrant._math.errors import InputError
from calibrant.evaluation.spread import Found, Item, Spread, here
from calibrant.experiments.engines.cores import available_cores
from calibrant.experiments.engines.in_order import AHEAD, in_order
from calibrant.experiments.engines.perform import changed_environment, pin_threads, pinned_threads
from calibrant.experiments.engines.pool import Pool
from calibrant.experiments.engines.ray import Ray
from calibrant.experiments.engines.roster import build_engine
from calibrant.experiments.engines.serial import Serial


@contextmanager
def spreading(engine: str | None, *, jobs: int | None = None) -> Generator[Spread]:
    """What shares out the parts of a table: ``"serial"``, ``"pool"`` or ``"ray"``, as in ``calibrant sweep``.

    Whoever adds up the answers does so in the order of the parts, so the result has the same bits with every
    engine. Ray does what a dead worker had elsewhere; a pool of processes says that one died.

    Args:
        engine: The engine; None works in this process.
        jobs: How many workers; by default one for each core.

    Raises:
        InputError: If there is no such engine, it is none for tables, or a process of a pool died.

    Example:
        >>> with spreading("serial") as spread:
        ...     list(spread(abs, [-1, 2]))
        [1, 2]
    """
    if engine is None:
        yield here
        return
    built = build_engine(engine, jobs=jobs)
    if isinstance(built, Serial):
        yield here
    elif isinstance(built, Ray):
        with built.spread() as tasks:
            yield tasks
    elif isinstance(built, Pool):
        with _pool(jobs or available_cores()) as tasks:
            yield tasks
    else:
        raise InputError(f"`engine` (--engine) must be serial, pool or ray for a table; got {engine}.")


@contextmanager
def _pool(jobs: int) -> Generator[Spread]:
    """Processes of this machine."""
    with changed_environment(pinned_threads(1)):
        pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=partial(pin_threads, 1))

        def spread(task: Callable[[Item], Found], items: Sequence[Item], /) -> Iterator[Found]:
            try:
                yield from in_order(partial(pool.submit, task), items, ahead=AHEAD * jobs, get=_result)
            except BrokenProcessPool as error:
                raise InputError("a process of the pool died; perhaps memory ran out.") from error

        try:
            yield spread
        finally:
            pool.shutdown(cancel_futures=True)


def _result(future: Any) -> Any:
    return future.result()
