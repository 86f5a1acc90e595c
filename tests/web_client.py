"""A server in the process of the tests."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx
from fastapi import FastAPI

from calibrant.web.limits import Limits
from calibrant.web.work import refused
from calibrant.web.workers import Done, Progress

SMALL = Limits(upload=1 << 20, held=3 << 20, unpacked=4 << 20, members=20, files=4, fields=8, receive=5)


class Here:
    """Computes where it is asked to, as the processes of a server do."""

    replaced = 0

    def start(self) -> None:
        """Nothing is to be started."""

    def stop(self) -> None:
        """Nothing is to be ended."""

    async def run(self, function: Callable[..., Any], *args: Any) -> AsyncGenerator[Progress | Done]:
        """All progress at once, then the value."""
        said: list[Progress | Done] = []
        try:
            said.append(Done(function(*args, lambda words, share: said.append(Progress(words, share)))))
        except Exception as error:
            raise refused(error) or error from error
        for message in said:
            yield message


class Client:
    """Sends requests to an application in this process, and waits for the whole answer."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def post(self, path: str, **given: Any) -> httpx.Response:
        return asyncio.run(self._answer("POST", path, given))

    def get(self, path: str, **given: Any) -> httpx.Response:
        return asyncio.run(self._answer("GET", path, given))

    async def _answer(self, method: str, path: str, given: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **given)
