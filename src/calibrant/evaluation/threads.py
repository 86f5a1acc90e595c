"""Work on several kinds of events at once: what is compiled, and NumPy's draws, release the interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results in the order of the items, whichever was done first."""
    waiting = list(items)
    workers = min(len(waiting), os.cpu_count() or 1)
    if workers < 2:
        return [function(item) for item in waiting]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, waiting))
