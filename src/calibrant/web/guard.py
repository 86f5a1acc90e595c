"""Protective headers and a count for every answer."""

from __future__ import annotations

import ipaddress
import time
from collections import Counter
from collections.abc import Collection, Mapping

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Styles may stand in the page: those of a report do. Scripts come from this server alone, and none is inline.
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_RAW = [(name.encode("ascii"), value.encode("ascii")) for name, value in _HEADERS.items()]
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """Refuse other sites' requests through a visitor's browser, and add the headers."""

    def __init__(self, app: ASGIApp, *, counts: Counts, hosts: Collection[str] | None) -> None:
        self._app, self._counts = app, counts
        self._hosts = None if hosts is None else frozenset(hosts)
        """Names that the server may be called by; None: any."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_RAW]
                self._counts.add(scope["path"], message["status"], time.perf_counter() - began)
            await send(message)

        wrong = self._wrong(Headers(scope=scope))
        answer = self._app if wrong is None else JSONResponse({"error": wrong}, 403)
        await answer(scope, receive, guarded)

    def _wrong(self, headers: Headers) -> str | None:
        """Return why a request is refused: an unknown host, or another site's page."""
        host = headers.get("host", "")
        if self._hosts is not None and _name_of(host) not in self._hosts:
            return f"the server is not called {_name_of(host)[:100]!r}; --host says what it listens on."
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return "requests from pages of another site are refused."
        return None


def _name_of(host: str) -> str:
    """Return the name in ``name:port``, or an IPv6 address without brackets.

    Example:
        >>> _name_of("localhost:80"), _name_of("[::1]:80"), _name_of("[::1]"), _name_of("a.example")
        ('localhost', '::1', '::1', 'a.example')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def hosts_of(host: str) -> frozenset[str] | None:
    """Return the allowed names of a server at this address, or None for any.

    On loopback a page of another site could otherwise reach it under a name of its own, which it lets point
    here (DNS rebinding).

    Example:
        >>> sorted(hosts_of("127.0.0.1")), hosts_of("0.0.0.0")
        (['127.0.0.1', '::1', 'localhost'], None)
    """
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host.lower() == "localhost"
    return LOOPBACK | {host.lower()} if loopback else None


_KNOWN = frozenset(
    {"/", "/evaluate", "/compare", "/apply", "/predict", "/about", "/health", "/metrics", "/openapi.json"}
)


class Counts:
    """Answers by path and status, and their total seconds."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count one answer; all unknown paths count as one."""
        known = path if path in _KNOWN else "other"
        self._answers[known, status] += 1
        self._seconds[known] += seconds  # pyright: ignore[reportArgumentType]

    def text(self, gauges: Mapping[str, float]) -> str:
        """Return all counts, and the given gauges, in Prometheus's text format.

        Example:
            >>> counts = Counts()
            >>> counts.add("/health", 200, 0.25)
            >>> print(counts.text({"held_bytes": 0}))
            # TYPE calibrant_answers_total counter
            calibrant_answers_total{path="/health",status="200"} 1
            # TYPE calibrant_answer_seconds_total counter
            calibrant_answer_seconds_total{path="/health"} 0.25
            # TYPE calibrant_held_bytes gauge
            calibrant_held_bytes 0
            <BLANKLINE>
        """
        lines = ["# TYPE calibrant_answers_total counter"]
        for (path, status), count in sorted(self._answers.items()):
            lines += [f'calibrant_answers_total{{path="{path}",status="{status}"}} {count}']
        lines += ["# TYPE calibrant_answer_seconds_total counter"]
        for path, seconds in sorted(self._seconds.items()):
            lines += [f'calibrant_answer_seconds_total{{path="{path}"}} {seconds:.6g}']
        for name, value in gauges.items():
            lines += [f"# TYPE calibrant_{name} gauge", f"calibrant_{name} {value:g}"]
        return "\n".join(lines) + "\n"
