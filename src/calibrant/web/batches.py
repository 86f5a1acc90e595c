"""Images that wait at the same time go through the network together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from calibrant.web.evaluations import Computes
from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Upload
from calibrant.web.workers import Done

MOST = 32  # images at a time
MOST_WAITING = 2048

Answer = dict[str, Any] | Refusal
Tell = Callable[[str, float], None]


class ImageClassifier(Protocol):
    """A network and its calibrator, as calibrant-lab loads them; it lives in a process of its own."""

    def described(self, tell: Tell, /) -> dict[str, Any]:
        """What the page says of the network before an image is chosen."""
        ...

    def predictions(self, files: Sequence[Upload], limits: Limits, tell: Tell, /) -> list[Answer]:
        """Raw and calibrated probabilities of each image, or why there are none."""
        ...

    def with_map(self, file: Upload, of: str, limits: Limits, tell: Tell, /) -> dict[str, Any]:
        """The same of one image, with a heat map."""
        ...


def call_described(classifier: ImageClassifier, *arguments: Any) -> dict[str, Any]:
    """Call the method, in the process that holds the classifier."""
    return classifier.described(*arguments)


def call_predictions(classifier: ImageClassifier, *arguments: Any) -> list[Answer]:
    """Call the method, in the process that holds the classifier."""
    return classifier.predictions(*arguments)


def call_with_map(classifier: ImageClassifier, *arguments: Any) -> dict[str, Any]:
    """Call the method, in the process that holds the classifier."""
    return classifier.with_map(*arguments)


class Batches:
    """Gathers images of all requests that wait."""

    def __init__(self, workers: Computes, limits: Limits) -> None:
        self._workers, self._limits = workers, limits
        self._waiting: deque[tuple[Upload, asyncio.Future[Answer]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def answers(self, files: Sequence[Upload]) -> list[Answer]:
        """What the network says of each, or why it says nothing.

        Raises:
            Refusal: If too many wait already.
        """
        if len(self._waiting) + len(files) > MOST_WAITING:
            raise Refusal(503, "too many images are waiting; try again in a few seconds.")
        loop = asyncio.get_running_loop()
        mine = [(file, loop.create_future()) for file in files]
        self._waiting.extend(mine)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return list(await asyncio.gather(*(future for _, future in mine)))

    async def _work(self) -> None:
        """Answer until nobody waits."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
            batch = [(file, future) for file, future in batch if not future.done()]  # some have left
            try:
                await self._answer(batch)
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)

    async def _answer(self, batch: Sequence[tuple[Upload, asyncio.Future[Answer]]]) -> None:
        """Answer some together; where that fails, each alone, so that none suffers for another."""
        try:
            files = [file for file, _ in batch]
            async with aclosing(self._workers.run(call_predictions, files, self._limits)) as messages:
                async for message in messages:
                    if isinstance(message, Done):
                        for (_, future), answer in zip(batch, message.value, strict=True):
                            if not future.done():
                                future.set_result(answer)
        except Refusal as refusal:
            if len(batch) > 1:
                for one in batch:
                    await self._answer([one])
            else:
                for _, future in batch:
                    if not future.done():
                        future.set_result(refusal)
