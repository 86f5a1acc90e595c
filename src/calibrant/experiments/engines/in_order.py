"""Answers in the order of the questions, whoever is ready first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from calibrant.evaluation.spread import Found, Item

AHEAD = 2
"""Parts for each worker that are worked on or wait to be added up: what memory holds."""


def in_order(
    submit: Callable[[Item], Any], items: Sequence[Item], *, ahead: int, get: Callable[[Any], Found]
) -> Iterator[Found]:
    """The answers in the order of the items, of which only some are worked on ahead.

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
