"""What shares a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Each = TypeVar("Each")
Key = TypeVar("Key")


def grouped(every: Iterable[Each], key: Callable[[Each], Key]) -> dict[Key, list[Each]]:
    """All that share a key, by it; keys and what has them keep their order.

    Example:
        >>> grouped(["one", "two", "three"], len)
        {3: ['one', 'two'], 5: ['three']}
    """
    found: dict[Key, list[Each]] = {}
    for each in every:
        found.setdefault(key(each), []).append(each)
    return found
