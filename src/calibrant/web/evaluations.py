"""Answers to files of predictions: as JSON, or line by line with progress and a report."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Form, Receiver, while_there
from calibrant.web.wanted import OF_APPLYING, OF_COMPARISONS, wanted_of
from calibrant.web.work import Answer, Repaired, applied, compared, evaluated
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
            wanted = wanted_of(form, report=_as_lines(request), known=OF_COMPARISONS)
            return self._workers.run(compared, files, wanted, self._limits)

        return await self._answer(request, task)

    async def apply(self, request: Request) -> Response:
        """Calibrate new predictions by a fitted calibrator: the file, and notes as JSON in a header."""

        def task(form: Form) -> Messages:
            wanted = wanted_of(form, report=False, known=OF_APPLYING)
            return self._workers.run(
                applied, form.only("calibrator"), form.only("file"), wanted, self._limits
            )

        return await while_there(request, self._file(self._messages(request, task)))

    async def _file(self, messages: Messages) -> Response:
        found: Repaired = await _value_of(messages)
        headers = {
            "content-disposition": f"attachment; filename*=UTF-8''{quote(found.name)}",
            "calibrant-notes": json.dumps(found.notes),
        }
        return Response(found.content, media_type="application/octet-stream", headers=headers)

    async def _answer(self, request: Request, task: Callable[[Form], Messages]) -> Response:
        messages = self._messages(request, task)
        begun = _Lines.begun(messages) if _as_lines(request) else self._last(messages)
        return await while_there(request, begun)

    async def _last(self, messages: Messages) -> Response:
        answer: Answer = await _value_of(messages)
        return Response(answer.json, media_type="application/json")

    async def _messages(self, request: Request, task: Callable[[Form], Messages]) -> Messages:
        """What the task says; the request's bytes are held as long."""
        async with self._receiver.form(request) as form, aclosing(task(form)) as messages:
            async for message in messages:
                yield message


async def _value_of(messages: Messages) -> Any:
    """What is computed in the end."""
    async with aclosing(messages):
        async for message in messages:
            if isinstance(message, Done):
                return message.value
    raise RuntimeError("a worker ended without a word")


def _as_lines(request: Request) -> bool:
    return LINES in request.headers.get("accept", "")


class _Lines(StreamingResponse):
    """Messages as lines of JSON; what computes them ends with the answer, even if the visitor has left."""

    def __init__(self, begun: list[Progress | Done], further: Messages) -> None:
        super().__init__(_lines(begun, further), media_type=LINES)
        self._further = further

    @classmethod
    async def begun(cls, messages: Messages) -> _Lines:
        """Wait for the message that shows that the input was read: what is wrong with it has a status."""
        found: list[Progress | Done] = []
        try:
            while not found or (isinstance(found[-1], Progress) and found[-1].share <= 0):
                found.append(await anext(messages))
        except BaseException:
            await messages.aclose()
            raise
        return cls(found, messages)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._further.aclose()


async def _lines(begun: list[Progress | Done], further: Messages) -> AsyncGenerator[str]:
    """A line for each message; a refusal that comes after the first ones is the last of them."""
    try:
        for message in begun:
            yield _line(message)
        async for message in further:
            yield _line(message)
    except Refusal as refusal:
        yield json.dumps(refusal.told) + "\n"


def _line(message: Progress | Done) -> str:
    if isinstance(message, Progress):
        return json.dumps({"progress": message.words, "share": round(message.share, 4)}) + "\n"
    answer: Answer = message.value
    told: dict[str, Any] = {"report": answer.report, "json": answer.json, "columns": answer.columns}
    told["calibrator_name"] = answer.calibrator_name
    if answer.calibrator is not None:
        told["calibrator"] = base64.b64encode(answer.calibrator).decode("ascii")
    return json.dumps(told) + "\n"
