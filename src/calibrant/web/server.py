"""The listening socket, and uvicorn's HTTP with a limit on headers."""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from calibrant._math.errors import InputError


def bound(host: str, port: int) -> socket.socket:
    """Bind a socket first, so that a wrong address fails early."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise InputError(
            f"--host and --port must be a free address of this computer; got {host} and {port} "
            f"({error.strerror}); --port 0 takes any free port."
        ) from error
    return listening


MOST_BESIDE = 1 << 18
"""Bytes of request line, headers, and lengths of pieces; uvicorn itself sets no limit here."""


class Protocol(HttpToolsProtocol):
    """uvicorn's fast parser, which closes connections with endless headers."""

    _beside = 0

    def data_received(self, data: bytes) -> None:
        if self._beside > MOST_BESIDE:
            self.send_400_response("The headers of a request must have an end.")
            return
        self._beside += len(data)
        super().data_received(data)

    def on_body(self, body: bytes) -> None:
        self._beside -= len(body)
        super().on_body(body)

    def on_message_begin(self) -> None:
        self._beside = 0
        super().on_message_begin()


def run(app: FastAPI, listening: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        http=Protocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=512,
        timeout_graceful_shutdown=3,  # seconds; a stalled upload would keep the server for ever
        timeout_keep_alive=75,  # longer than clients keep one, or a request may meet a connection that ends
    )
    uvicorn.Server(config).run(sockets=[listening])
