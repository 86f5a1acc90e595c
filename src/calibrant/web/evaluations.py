"""Answers to files of predictions: as JSON, or line by line with progress and a report."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from calibrant.web.described import APPLY, COMPARE, EVALUATE
from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Form, while_there
from calibrant.web.wanted import OF_APPLYING, OF_COMPARISONS, wanted_of
from calibrant.web.work import Answer, Repaired, applied, compared, evaluated
from calibrant.web.workers import Messages, Progress, Workers, value_of

LINES = "application/x-ndjson"


def add_evaluations(app: FastAPI, workers: Workers, limits: Limits, received: Any) -> None:
    """Judge and repair predictions that are sent.

    Args:
        app: What answers.
        workers: Compute.
        limits: On every request.
        received: Depends on the form of a request.
    """

    @app.post("/evaluate", openapi_extra=EVALUATE)
    async def evaluate(request: Request, form: Form = received) -> Response:
        """Judge predictions: the evaluation as JSON, or progress and a report line by line."""
        other = form.only("calibration") if "calibration" in form.files else None
        wanted = wanted_of(form, report=_as_lines(request))
        return await _answer(request, workers.run(evaluated, form.only("file"), other, wanted, limits))

    @app.post("/compare", openapi_extra=COMPARE)
    async def compare(request: Request, form: Form = received) -> Response:
        """Put the predictions of several models side by side: as JSON, or line by line with a report."""
        files = form.files.get("file", [])
        if len(files) < 2:
            raise Refusal(422, f"`file` must hold two files or more; got {len(files)}.")
        wanted = wanted_of(form, report=_as_lines(request), known=OF_COMPARISONS)
        return await _answer(request, workers.run(compared, files, wanted, limits))

    @app.post("/apply", openapi_extra=APPLY)
    async def apply(request: Request, form: Form = received) -> Response:
        """Calibrate new predictions by a fitted calibrator: the file, and notes as JSON in a header."""
        wanted = wanted_of(form, report=False, known=OF_APPLYING)
        given = (form.only("calibrator"), form.only("file"))
        found: Repaired = await while_there(request, value_of(workers.run(applied, *given, wanted, limits)))
        headers = {
            "content-disposition": f"attachment; filename*=UTF-8''{quote(found.name)}",
            "calibrant-notes": json.dumps(found.notes),
        }
        return Response(found.content, media_type="application/octet-stream", headers=headers)


async def _answer(request: Request, messages: Messages) -> Response:
    if _as_lines(request):
        return await while_there(request, _Lines.begun(messages))
    answer: Answer = await while_there(request, value_of(messages))
    return Response(answer.json, media_type="application/json")


def _as_lines(request: Request) -> bool:
    return LINES in request.headers.get("accept", "")


class _Lines(StreamingResponse):
    """Messages as lines of JSON; what computes them ends with the answer, even if the visitor has left."""

    def __init__(self, begun: list[Any], further: Messages) -> None:
        super().__init__(_lines(begun, further), media_type=LINES)
        self._further = further

    @classmethod
    async def begun(cls, messages: Messages) -> _Lines:
        """Wait for the message that shows that the input was read: what is wrong with it has a status."""
        found: list[Any] = []
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


async def _lines(begun: list[Any], further: Messages) -> AsyncGenerator[str]:
    """A line for each message; a refusal that comes after the first ones is the last of them."""
    try:
        for message in begun:
            yield _line(message)
        async for message in further:
            yield _line(message)
    except Refusal as refusal:
        yield json.dumps(refusal.told) + "\n"


def _line(message: Any) -> str:
    if isinstance(message, Progress):
        return json.dumps({"progress": message.words, "share": round(message.share, 4)}) + "\n"
    told = vars(message.value).copy()
    calibrator = told.pop("calibrator")
    if calibrator is not None:
        told["calibrator"] = base64.b64encode(calibrator).decode("ascii")
    return json.dumps(told) + "\n"
