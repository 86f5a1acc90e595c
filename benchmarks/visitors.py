"""Visitors who ask a server over and over, at as little cost as Python allows.

Client and server share the cores of one computer, so what a client costs is taken from the server. These send
requests that were put together before, over connections that stay open, and look for the end of each answer.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_BOUNDARY = "calibrant-boundary"


@dataclass
class Load:
    """What became of all requests."""

    took: list[float] = field(default_factory=list[float])
    lost: list[str] = field(default_factory=list[str])


class _Visitor(asyncio.Protocol):
    """One connection: asks, waits for the whole answer, asks again."""

    def __init__(self, left: Iterator[bytes], load: Load, expected: bytes) -> None:
        self._left, self._load, self._expected = left, load, expected
        self._answer, self._length, self._began = bytearray(), -1, 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if self._length < 0:
            head = self._answer.find(b"\r\n\r\n")
            if head < 0:
                return
            stated = _LENGTH.search(self._answer, 0, head + 2)
            assert stated, bytes(self._answer[:head])  # noqa: S101
            self._length = head + 4 + int(stated[1])
        if len(self._answer) >= self._length:
            self._load.took.append(time.perf_counter() - self._began)
            if not self._answer.startswith(b"HTTP/1.1 200") or self._expected not in self._answer:
                self._load.lost.append(bytes(self._answer[:300]).decode(errors="replace"))
            self._began = 0.0
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._began:
            self._load.lost.append(f"the connection ended ({exc})")
        if not self.done.done():
            self.done.set_result(None)

    def _ask(self) -> None:
        self._answer, self._length = bytearray(), -1
        request = next(self._left, None)
        if request is None:
            self._transport.close()
            return
        self._began = time.perf_counter()
        self._transport.write(request)


def request_of(
    path: str, name: str, content: bytes, host: str, fields: dict[str, str] | None = None
) -> bytes:
    """A form with one file, as it goes over the wire."""
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{text}\r\n'.encode()
        for key, text in (fields or {}).items()
    ]
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    body = b"".join([*parts, head, content, f"\r\n--{_BOUNDARY}--\r\n".encode()])
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        f"Content-Type: multipart/form-data; boundary={_BOUNDARY}",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def load(
    address: str, files: Sequence[bytes], *, requests: int, visitors: int, expected: bytes = b'"classes"'
) -> dict[str, Any]:
    """Visitors that each ask ``/predict`` again as soon as they are answered; what became of it."""
    parts = urlsplit(address)
    ready = [request_of("/predict", "image.png", content, parts.netloc) for content in files]
    left = (ready[number % len(ready)] for number in range(requests))
    found, loop = Load(), asyncio.get_running_loop()
    began, cpu = time.perf_counter(), time.process_time()
    people = [
        await loop.create_connection(lambda: _Visitor(left, found, expected), parts.hostname, parts.port)
        for _ in range(visitors)
    ]
    await asyncio.gather(*(visitor.done for _, visitor in people))
    seconds = time.perf_counter() - began
    return {
        "requests": requests,
        "visitors": visitors,
        "answered": len(found.took) - len(found.lost),
        "lost": requests - (len(found.took) - len(found.lost)),
        "why": found.lost[:5],
        "per_second": requests / seconds,
        "median_seconds": float(np.median(found.took)),
        "slowest_seconds": max(found.took),
        "visitors_cpu_ms": 1000 * (time.process_time() - cpu) / requests,
    }
