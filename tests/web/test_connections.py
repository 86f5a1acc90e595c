"""What a visitor begins ends with the connection, and one who sends without end is cut off."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from uvicorn import Config
from uvicorn.server import ServerState

from calibrant.web.app import LINES, create_app
from calibrant.web.limits import Limits, Refusal
from calibrant.web.server import MOST_BESIDE, Protocol
from calibrant.web.uploads import Receiver
from calibrant.web.work import Answer
from calibrant.web.workers import Done, Progress
from command_line import START
from web_client import Here

FILE = {"file": ("a.csv", b"label,prob\n")}


class Long(Here):
    """Says something, then more, and notes when it was ended."""

    def __init__(self) -> None:
        self.ended = 0

    async def run(self, *_: Any) -> AsyncGenerator[Progress | Done]:
        try:
            yield Progress("reading", 0.0)
            yield Progress("working", 0.5)
            yield Done(Answer(json="{}"))
            await asyncio.Event().wait()
        finally:
            self.ended += 1


@pytest.mark.parametrize("kind", ["application/json", LINES])
def test_workers_are_free_when_the_answer_is_there(kind) -> None:
    """What computes is ended when it has said all, or the visitor has left, not some time later."""

    async def asked() -> int:
        workers = Long()
        app = create_app(workers)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            asking = client.post("/evaluate", files=FILE, headers={"accept": kind})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asking, 0.1 if kind == LINES else 5)
        return workers.ended

    assert asyncio.run(asked()) == 1


class Endless(Long):
    async def run(self, *_: Any) -> AsyncGenerator[Progress | Done]:
        try:
            await asyncio.Event().wait()
            yield Progress("never", 0.0)
        finally:
            self.ended += 1


@pytest.mark.parametrize("kind", [b"application/json", LINES.encode()])
def test_work_ends_when_the_client_leaves(kind) -> None:
    async def asked() -> int:
        workers, sent, leaves = Endless(), asyncio.Event(), time.monotonic() + 0.4

        async def receive() -> dict[str, Any]:
            if not sent.is_set():
                sent.set()
                head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
                body = head + b"y\r\n--b--\r\n"
                return {"type": "http.request", "body": body, "more_body": False}
            if time.monotonic() < leaves:
                await asyncio.sleep(10)
            return {"type": "http.disconnect"}

        async def send(_: Any) -> None:
            pass

        form = (b"content-type", b"multipart/form-data; boundary=b")
        headers = [(b"host", b"localhost"), (b"accept", kind), form]
        scope = {"type": "http", "method": "POST", "path": "/evaluate", "query_string": b""}
        await asyncio.wait_for(create_app(workers)(scope | {"headers": headers}, receive, send), 10)
        return workers.ended

    assert asyncio.run(asked()) == 1


def request_of(wait: float) -> Request:
    """A request whose content comes after a while."""

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(wait)
        end = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\ny\r\n--b--\r\n'
        return {"type": "http.request", "body": end, "more_body": False}

    headers = [(b"content-type", b"multipart/form-data; boundary=b")]
    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


def test_only_a_slow_request_is_too_slow() -> None:
    """A request that does not come in time is refused as such; what is slow afterwards is not called that."""
    receiver = Receiver(replace(Limits(), receive=0.01))

    async def asked(wait: float, error: Exception | None) -> None:
        async with receiver.form(request_of(wait)):
            if error is not None:
                raise error

    with pytest.raises(Refusal, match=r"must come within 0\.01 s") as caught:
        asyncio.run(asked(5, None))
    assert caught.value.status == 408
    with pytest.raises(TimeoutError, match="later"):
        asyncio.run(asked(0, TimeoutError("later")))
    assert receiver.held == 0


class Wire(asyncio.Transport):
    """A connection that notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        """Nothing."""

    def resume_reading(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("head", "rest", "refused"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nX: ", b"x" * 65_536, True),
        (b"POST / HTTP/1.1\r\nHost: a\r\n", b"X: y\r\n" * 10_000, True),
        (b"POST /", b"x" * 65_536, True),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n", b"x" * 65_536, False),
    ],
)
def test_headers_have_an_end(head, rest, refused) -> None:
    """Headers, one header or an address without an end are cut off; a long content is not."""

    async def sent() -> Wire:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await asyncio.Event().wait()

        wire, config = Wire(), Config(app, log_level="critical")
        protocol = Protocol(config, ServerState(), {}, asyncio.get_running_loop())
        protocol.connection_made(wire)
        protocol.data_received(head)
        for _ in range(MOST_BESIDE // len(rest) + 2):
            if not wire.closed:
                protocol.data_received(rest)
        for task in protocol.tasks:
            task.cancel()
        return wire

    wire = asyncio.run(sent())
    assert wire.closed == refused
    assert wire.written.startswith(b"HTTP/1.1 400") == refused


@pytest.mark.slow
def test_a_stalled_upload_does_not_keep_the_server(tmp_path) -> None:
    serving = subprocess.Popen(
        [*START, "serve", "--port", "0", "--jobs", "1"], stdout=subprocess.PIPE, cwd=tmp_path, text=True
    )
    with serving:
        port = int(serving.stdout.readline().split("/ (")[0].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            head = "POST /evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
            client.sendall(f"{head}Content-Type: multipart/form-data; boundary=b\r\n\r\n--b".encode())
            time.sleep(1)
            serving.terminate()
            assert serving.wait(timeout=15) in {0, -signal.SIGTERM, 143}
