"""The server's paths, answered as JSON or line by line with progress and a report."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import Depends, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from calibrant import __version__
from calibrant.web import forms
from calibrant.web.guard import LOOPBACK, Counts, Guard
from calibrant.web.limits import Limits, Refusal
from calibrant.web.predicting import Model, add_predictions
from calibrant.web.uploads import Form, Receiver, while_there
from calibrant.web.work import Answer, Repaired, applied, compared, evaluated
from calibrant.web.workers import Messages, Progress, Workers, value_of


def create_app(
    workers: Workers,
    *,
    model: Model | None = None,
    limits: Limits | None = None,
    hosts: Collection[str] | None = LOOPBACK,
) -> FastAPI:
    """Create the application; ``hosts`` are its allowed names, None for any."""
    limits = limits or Limits()
    receiver, counts = Receiver(limits), Counts()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        workers.start()
        yield
        workers.stop()
        if model is not None:
            model.workers.stop()

    app = FastAPI(
        title="calibrant",
        version=__version__,
        description=forms.ABOUT,
        lifespan=lifespan,
        docs_url=None,  # their scripts come from another server
        redoc_url=None,
    )
    app.add_middleware(Guard, counts=counts, hosts=hosts)
    for kind in (Refusal, HTTPException, Exception):
        app.add_exception_handler(kind, _in_a_sentence)

    async def received(request: Request) -> AsyncGenerator[Form]:
        async with receiver.form(request) as form:
            yield form  # until the answer was sent

    add_predictions(app, model, receiver, limits)  # first what is asked for most, as paths are tried in turn
    add_evaluations(app, workers, limits, Depends(received))
    for name, kind in PAGE.items():
        path = "/" if name == "page.html" else f"/{name}"
        app.add_api_route(path, _shows(name, kind), include_in_schema=False)

    @app.get("/health", openapi_extra=forms.shown({"status": "ok"}))
    async def health() -> dict[str, Any]:
        """Status and version of the server."""
        return {"status": "ok", "version": __version__}

    held = forms.shown("calibrant_held_bytes 0", "text/plain")

    @app.get("/metrics", response_class=PlainTextResponse, openapi_extra=held)
    async def metrics() -> str:
        """Counts of answers and the bytes held, for Prometheus."""
        return counts.text({"held_bytes": receiver.held, "replaced_workers": workers.replaced})

    @app.get("/about", openapi_extra=forms.shown({"model": None}))
    async def about() -> dict[str, Any]:
        """Facts for the page: the version, the limits, and the network if there is one."""
        return {"version": __version__, "most_bytes": limits.upload, "model": model and model.described}

    return app


PAGE = {
    "page.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "common.js": "text/javascript",
    "image.js": "text/javascript",
}
"""The files of the page, which need no network."""


def _shows(name: str, kind: str) -> Any:
    content = files("calibrant.web").joinpath("page", name).read_bytes()

    async def answer() -> Response:
        return Response(content, media_type=kind)

    return answer


async def _in_a_sentence(request: Request, error: Exception) -> Response:
    match error:
        case Refusal():
            return JSONResponse(error.told, error.status)
        case HTTPException(status_code=404):
            said = "there is nothing under this path; / is the page, and /openapi.json lists what there is."
        case HTTPException(status_code=405):
            said = f"{request.method} is not for this path; /openapi.json says what is."
        case HTTPException():
            said = "the request is not well-formed."
        case _:
            said = "a bug in calibrant, not in the file; see the server's log."
    return JSONResponse({"error": said}, getattr(error, "status_code", 500))


LINES = "application/x-ndjson"


def add_evaluations(app: FastAPI, workers: Workers, limits: Limits, received: Any) -> None:
    @app.post("/evaluate", openapi_extra=forms.EVALUATE)
    async def evaluate(request: Request, form: Form = received) -> Response:
        """Evaluate predictions: as JSON, or line by line with progress and a report."""
        other = form.only("calibration") if "calibration" in form.files else None
        wanted = forms.evaluate_form(form, report=_as_lines(request))
        return await _answer(request, workers.run(evaluated, form.only("file"), other, wanted, limits))

    @app.post("/compare", openapi_extra=forms.COMPARE)
    async def compare(request: Request, form: Form = received) -> Response:
        """Compare the predictions of several models: as JSON, or line by line with a report."""
        files = form.files.get("file", [])
        if len(files) < 2:
            raise Refusal(422, f"`file` must hold two files or more; got {len(files)}.")
        wanted = forms.evaluate_form(form, report=_as_lines(request), known=forms.OF_COMPARISONS)
        return await _answer(request, workers.run(compared, files, wanted, limits))

    @app.post("/apply", openapi_extra=forms.APPLY)
    async def apply(request: Request, form: Form = received) -> Response:
        """Calibrate new predictions with a fitted calibrator: the file, and notes as JSON in a header."""
        wanted = forms.evaluate_form(form, report=False, known=forms.OF_APPLYING)
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
    """Messages as lines of JSON; a computation ends with its answer, even without a reader."""

    def __init__(self, begun: list[Any], further: Messages) -> None:
        super().__init__(_lines(begun, further), media_type=LINES)
        self._further = further

    @classmethod
    async def begun(cls, messages: Messages) -> _Lines:
        """Wait until the input was read, so that input errors set the status."""
        found: list[Any] = []
        try:
            while not found or (isinstance(found[-1], Progress) and found[-1].share <= 0):
                found.append(await anext(messages))
        except BaseException:
            await messages.aclose()
            raise
        return cls(found, messages)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._further.aclose()


async def _lines(begun: list[Any], further: Messages) -> AsyncGenerator[str]:
    """Yield a line per message; a late refusal is the last line."""
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
