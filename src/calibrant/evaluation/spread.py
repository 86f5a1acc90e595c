"""Distribution of parts of tables, or images: here in turn, or by an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


class Spread(Protocol):
    """Does a task for every item, anywhere; the answers come in the order of the items."""

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
