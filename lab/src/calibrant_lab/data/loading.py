"""Batches of samples, decoded ahead of their use, so that a device does not wait for its next batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor

from calibrant._math.shapes import Int
from calibrant_lab.data.lazy import LazyImages

AHEAD = 3  # batches that are decoded, or being decoded, while one is used


def in_turn(inputs: Tensor | LazyImages, batches: Sequence[Int[Tensor, " B"]]) -> Generator[Tensor]:
    """The samples of each batch, in order.

    Images that are decoded when they are chosen are decoded in the background, a few batches ahead. The
    memory that this takes does not grow with the number of batches.
    """
    if not isinstance(inputs, LazyImages):
        for rows in batches:
            yield inputs[rows.to(inputs.device)]
        return
    coming = iter(batches)
    pool = ThreadPoolExecutor(1)  # which decodes each batch by several threads of its own
    waiting: deque[Future[Tensor]] = deque()

    def order_one() -> None:
        rows = next(coming, None)
        if rows is not None:
            waiting.append(pool.submit(inputs.__getitem__, rows.cpu()))

    try:
        for _ in range(AHEAD):
            order_one()
        while waiting:
            batch = waiting.popleft().result()
            order_one()
            yield batch
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Plan:
    """Batches that will be asked for in this order; other rows are simply chosen."""

    def __init__(self, inputs: Tensor | LazyImages, batches: Sequence[Int[Tensor, " B"]]) -> None:
        self._inputs, self._stream = inputs, in_turn(inputs, batches)
        self._coming = deque(batches)

    def take(self, rows: Int[Tensor, " B"]) -> Tensor:
        expected = self._coming[0] if self._coming else None
        if expected is None or expected.shape != rows.shape or not bool((expected == rows).all()):
            return self._inputs[rows]
        self._coming.popleft()
        return next(self._stream)
