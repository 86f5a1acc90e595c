"""The server: its paths, and what answers each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from calibrant import __version__
from calibrant.web.counts import Counts
from calibrant.web.described import ABOUT, shown
from calibrant.web.evaluations import add_evaluations
from calibrant.web.guard import LOOPBACK, Guard
from calibrant.web.limits import Limits, Refusal
from calibrant.web.page import PAGES, content_of
from calibrant.web.predicting import Model, add_predictions
from calibrant.web.uploads import Form, Receiver
from calibrant.web.workers import Workers


def create_app(
    workers: Workers,
    *,
    model: Model | None = None,
    limits: Limits | None = None,
    hosts: Collection[str] | None = LOOPBACK,
) -> FastAPI:
    """The application.

    Args:
        workers: Compute evaluations and comparisons.
        model: The network that images are shown to, if there is one.
        limits: On every request.
        hosts: Names that it may be called by; None: any.
    """
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
        description=ABOUT,
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
    for path, page in PAGES.items():
        app.add_api_route(path, _shows(*page), include_in_schema=False)

    @app.get("/health", openapi_extra=shown({"status": "ok"}))
    async def health() -> dict[str, Any]:
        """Whether the server answers, and which version it is."""
        return {"status": "ok", "version": __version__}

    @app.get(
        "/metrics",
        response_class=PlainTextResponse,
        openapi_extra=shown("calibrant_held_bytes 0", "text/plain"),
    )
    async def metrics() -> str:
        """Counts of answers and the bytes that are held, for Prometheus."""
        return counts.text({"held_bytes": receiver.held, "replaced_workers": workers.replaced})

    @app.get("/about", openapi_extra=shown({"model": None}))
    async def about() -> dict[str, Any]:
        """What the page needs to know: the version, the limits, and the network if there is one."""
        return {"version": __version__, "most_bytes": limits.upload, "model": model and model.described}

    return app


def _shows(name: str, kind: str) -> Any:
    async def answer() -> Response:
        return Response(content_of(name), media_type=kind)

    return answer


async def _in_a_sentence(request: Request, error: Exception) -> Response:
    """Every error is one sentence."""
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
            said = "a fault of calibrant, not of the file; the server's log has it."
    return JSONResponse({"error": said}, getattr(error, "status_code", 500))
