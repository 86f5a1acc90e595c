"""Answer images; those that wait at the same time form one batch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from calibrant.web.forms import PREDICT
from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Receiver, Upload, while_there
from calibrant.web.workers import Workers, value_of


@dataclass(frozen=True)
class Model:
    """The network of a server."""

    workers: Workers
    """Processes that hold the classifier."""
    described: dict[str, Any]


def add_predictions(app: FastAPI, model: Model | None, receiver: Receiver, limits: Limits) -> None:
    batches = None if model is None else Batches(model.workers, limits)

    @app.post("/predict", openapi_extra=PREDICT)
    async def predict(request: Request) -> Response:
        """Raw and calibrated probabilities of each image, with intervals; for one image also a heat map."""
        if model is None or batches is None:
            raise Refusal(404, "there is no network here; start `calibrant serve --model module:factory`.")
        async with receiver.form(request) as form:
            files = form.files.get("file", [])
            if unknown := sorted(set(form.fields) - {"map"}):
                raise Refusal(422, f"there is no field {unknown[0][:50]!r}; there is `map`.")
            if not files:
                raise Refusal(422, "the field `file` must hold one image or more; got none.")
            if of := form.text("map"):
                asked = ("with_map", form.only("file"), of, limits)
                found = [await while_there(request, value_of(model.workers.run(call, *asked)))]
            else:
                found = await while_there(request, batches.answers(files))
        if len(found) == 1 and isinstance(found[0], Refusal):
            raise found[0]
        told = [
            {"name": file.name, "error": answer.sentence} if isinstance(answer, Refusal) else answer
            for file, answer in zip(files, found, strict=True)
        ]
        return JSONResponse({"predictions": told})


MOST = 32  # images at a time
MOST_WAITING = 2048

Answer = dict[str, Any] | Refusal


def call(classifier: Any, method: str, *arguments: Any) -> Any:
    """Call a method of the classifier, in its own process.

    calibrant-lab loads it: ``described(tell)`` describes the network for the page, ``predictions(files,
    limits, tell)`` returns each image's probabilities or error, and ``with_map(file, of, limits, tell)`` adds
    a heat map to one image's probabilities.
    """
    return getattr(classifier, method)(*arguments)


class Batches:
    """Batches the images of all waiting requests."""

    def __init__(self, workers: Workers, limits: Limits) -> None:
        self._workers, self._limits = workers, limits
        self._waiting: deque[tuple[Upload, asyncio.Future[Answer]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def answers(self, files: Sequence[Upload]) -> asyncio.Future[list[Answer]]:
        """Return the network's answer on each image, or its error."""
        if len(self._waiting) + len(files) > MOST_WAITING:
            raise Refusal(503, "too many images are waiting; try again in a few seconds.")
        loop = asyncio.get_running_loop()
        mine = [(file, loop.create_future()) for file in files]
        self._waiting.extend(mine)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return asyncio.gather(*(future for _, future in mine))

    async def _work(self) -> None:
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
        """Answer a batch; if it fails, answer each image alone."""
        try:
            files = [file for file, _ in batch]
            found = await value_of(self._workers.run(call, "predictions", files, self._limits))
        except Refusal as refusal:
            if len(batch) > 1:
                for one in batch:
                    await self._answer([one])
                return
            found = [refusal] * len(batch)
        for (_, future), answer in zip(batch, found, strict=True):
            if not future.done():
                future.set_result(answer)
