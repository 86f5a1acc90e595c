"""How many threads torch takes, and several pieces of work at once."""

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


@contextmanager
def one_thread() -> Generator[None]:
    """One thread, afterwards as many as before: sums by several are not the same to the last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_for(num_entries: int) -> AbstractContextManager[None]:
    """One thread for operations on so few entries, afterwards as many as before."""
    return nullcontext() if num_entries >= SMALL or torch.get_num_threads() == 1 else one_thread()


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], *, most: int | None = None
) -> Iterator[Result]:
    """The results in the order of the items, each as soon as it and those before it are there.

    For work that releases the interpreter: what is compiled, NumPy's draws, torch's operations. By default
    there are as many threads as processors, or ``most``.
    """
    waiting = list(items)
    workers = min(len(waiting), most or os.cpu_count() or 1)
    if workers < 2:
        yield from map(function, waiting)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(function, waiting)
