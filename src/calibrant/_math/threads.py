"""Number of torch threads, and work in parallel threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

SMALL = 1 << 20
"""Entries of a table below which waking threads costs more than they bring, up to several times as much."""

MANY = 1 << 18
"""Samples above which tasks that copy all of them run one after another, because they need much memory."""


def at_once(num_samples: int) -> int | None:
    """Number of threads for tasks that copy all samples; ``None`` for the number of processors."""
    return 1 if num_samples > MANY else None


@contextmanager
def one_thread() -> Generator[None]:
    """Use one thread, then restore the number: sums by several threads differ in the last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_for(num_entries: int) -> AbstractContextManager[None]:
    """Use one thread for operations on few entries, then restore the number."""
    return nullcontext() if num_entries >= SMALL or torch.get_num_threads() == 1 else one_thread()


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], *, most: int | None = None
) -> Iterator[Result]:
    """Results in the order of the items, each as soon as it and its predecessors are ready.

    Use it for work that releases the interpreter lock: compiled code, NumPy's draws, torch's operations.
    ``most`` limits the threads, by default to the number of processors.
    """
    waiting = list(items)
    workers = min(len(waiting), most or os.cpu_count() or 1)
    if workers < 2:
        yield from map(function, waiting)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(function, waiting)
