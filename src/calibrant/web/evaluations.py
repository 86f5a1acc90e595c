"""Answers to files of predictions: as JSON, or line by line with progress and a report."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol, TypeAlias

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Form, Receiver
from calibrant.web.wanted import wanted_of
from calibrant.web.work import Answer, compared, evaluated
from calibrant.web.workers import Done, Progress

LINES = "application/x-ndjson"

Messages: TypeAlias = AsyncGenerator[Progress | Done]


class Computes(Protocol):
    """What computes for the server: :class:`calibrant.web.workers.Workers`."""

    replaced: int

    def start(self) -> None:
        """Before the first request."""
        ...

    def stop(self) -> None:
        """After the last one."""
        ...

    def run(self, function: Any, *args: Any) -> Messages:
        """Progress, and in the end what was computed."""
        ...


class Evaluations:
    """Judges predictions that are sent."""

    def __init__(self, workers: Computes, receiver: Receiver, limits: Limits) -> None:
        self._workers, self._receiver, self._limits = workers, receiver, limits

    async def evaluate(self, request: Request) -> Response:
        """Judge predictions: the evaluation as JSON, or progress and a report line by line."""

        def task(form: Form) -> Messages:
            other = form.only("calibration") if "calibration" in form.files else None
            wanted = wanted_of(form, report=_as_lines(request))
            return self._workers.run(evaluated, form.only("file"), other, wanted, self._limits)

        return await self._answer(request, task)

    async def compare(self, request: Request) -> Response:
        """Put the predictions of several models side by side: as JSON, or line by line with a report."""

        def task(form: Form) -> Messages:
            files = form.files.get("file", [])
            if len(files) < 2:
                raise Refusal(422, f"`file` must hold two files or more; got {len(files)}.")
            wanted = wanted_of(form, report=_as_lines(request))
            return self._workers.run(compared, files, wanted, self._limits)

        return await self._answer(request, task)

    async def _answer(self, request: Request, task: Callable[[Form], Messages]) -> Response:
        messages = self._messages(request, task)
        if not _as_lines(request):
            async for message in messages:
                if isinstance(message, Done):
                    return Response(message.value.json, media_type="application/json")
            raise RuntimeError("a worker ended without a word")
        begun = [message async for message in _until_read(messages)]  # what is wrong with a file has a status
        return StreamingResponse(_lines(begun, messages), media_type=LINES)

    async def _messages(self, request: Request, task: Callable[[Form], Messages]) -> Messages:
        """What the task says; the request's bytes are held as long."""
        async with self._receiver.form(request) as form:
            async for message in task(form):
                yield message


def _as_lines(request: Request) -> bool:
    return LINES in request.headers.get("accept", "")


async def _until_read(messages: Messages) -> Messages:
    """The first messages, up to the one that shows that the input was read."""
    while True:
        message = await anext(messages)
        yield message
        if isinstance(message, Done) or message.share > 0:
            return


async def _lines(begun: list[Progress | Done], further: Messages) -> AsyncGenerator[str]:
    """Messages as lines of JSON; what is refused from here on is the last of them."""
    try:
        for message in begun:
            yield _line(message)
        async for message in further:
            yield _line(message)
    except Refusal as refusal:
        yield json.dumps({"error": refusal.sentence}) + "\n"
    finally:
        await further.aclose()  # where the visitor has left


def _line(message: Progress | Done) -> str:
    if isinstance(message, Progress):
        return json.dumps({"progress": message.words, "share": round(message.share, 4)}) + "\n"
    answer: Answer = message.value
    told = {"report": answer.report, "calibrator_name": answer.calibrator_name, "json": answer.json}
    if answer.calibrator is not None:
        told["calibrator"] = base64.b64encode(answer.calibrator).decode("ascii")
    return json.dumps(told) + "\n"
