"""Requests with files, received into memory: nothing that is sent is written to a disk."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from calibrant.web.form_parts import Parts
from calibrant.web.limits import Limits, Refusal, size

_LONGEST_NAME = 100
_LOOK = 0.25  # seconds between two looks whether the client is there


@dataclass(frozen=True)
class Upload:
    """A file that was sent."""

    name: str
    """Without a folder, and without what cannot be printed."""
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Form:
    """What a request holds."""

    files: dict[str, list[Upload]]
    fields: dict[str, list[str]]

    def only(self, name: str) -> Upload:
        """The one file of this field.

        Raises:
            Refusal: If there is none, or several.
        """
        found = self.files.get(name, [])
        if len(found) != 1:
            raise Refusal(422, f"the field `{name}` must hold one file; got {len(found) or 'none'}.")
        return found[0]

    def text(self, name: str) -> str | None:
        """The last text of this field; None where it is empty or absent."""
        return next((each.strip() for each in reversed(self.fields.get(name, [])) if each.strip()), None)


async def while_there(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The answer that is worked out, unless the client leaves: the work then ends, and its bytes are freed.

    Raises:
        Refusal: If the client left.
    """
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK))[0]:
            # Whoever looks while the request comes would take a piece of it.
            if getattr(request.state, "received", False) and await request.is_disconnected():
                raise Refusal(400, "the client left before the answer was there.")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


class Receiver:
    """Receives requests within the limits, of all together too."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held = 0
        """Bytes of the requests that are being answered."""

    @asynccontextmanager
    async def form(self, request: Request) -> AsyncGenerator[Form]:
        """The form of a request, whose bytes count as held until it is answered.

        Raises:
            Refusal: If it is not a form, too large, or comes too slowly.
        """
        counted = _Counted(self, self._limits)
        try:
            try:
                async with asyncio.timeout(self._limits.receive):
                    found = await self._parsed(request, counted)
            except TimeoutError as error:
                raise Refusal(408, f"the request must come within {self._limits.receive:g} s.") from error
            request.state.received = True
            yield found
        finally:
            self.held -= counted.count

    async def _parsed(self, request: Request, counted: _Counted) -> Form:
        kind = request.headers.get("content-type", "")
        if not kind.lower().startswith("multipart/form-data"):
            raise Refusal(
                415, "the request must be multipart/form-data with the field `file`; got "
                f"{kind[:_LONGEST_NAME] or 'no content type'!r}."
            )  # fmt: skip
        limits = self._limits
        stated = request.headers.get("content-length", "")
        if stated.isdigit() and int(stated) > limits.upload:
            raise _too_large(limits)
        parts = Parts(kind, limits)
        try:
            async for chunk in counted.chunks(request):
                parts.write(chunk)
        except ClientDisconnect as error:
            raise Refusal(400, "the request was cut off.") from error
        parts.close()
        form = Form(files={}, fields={})
        for part in parts.found:
            if part.filename is None:
                form.fields.setdefault(part.name, []).append(part.content.decode("utf-8", "replace"))
            else:
                upload = Upload(bare_name(part.filename), bytes(part.content))
                form.files.setdefault(part.name, []).append(upload)
            part.content.clear()
        return form


class _Counted:
    """Counts the bytes of one request while they come: what a header says of them may be wrong."""

    def __init__(self, receiver: Receiver, limits: Limits) -> None:
        self._receiver, self._limits, self.count = receiver, limits, 0

    async def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        async for chunk in request.stream():
            self.count += len(chunk)
            self._receiver.held += len(chunk)
            if self.count > self._limits.upload:
                raise _too_large(self._limits)
            if self._receiver.held > self._limits.held:
                raise Refusal(503, "too many uploads are being answered; try again in a few seconds.")
            yield chunk


def _too_large(limits: Limits) -> Refusal:
    return Refusal(413, f"a request must have at most {size(limits.upload)}; --max-upload sets the limit.")


def bare_name(name: str) -> str:
    r"""The last part of a path, as a name to show.

    Example:
        >>> bare_name("../../etc/passwd.csv"), bare_name("C:\\temp\\a.npz"), bare_name("/")
        ('passwd.csv', 'a.npz', 'upload')
    """
    last = PureWindowsPath(name.replace("\0", "")).name  # knows both kinds of slashes
    shown = re.sub(r"[^\w .,()+@=-]", "_", last).strip(" .")
    if len(shown) > _LONGEST_NAME:
        shown = shown[: _LONGEST_NAME // 2] + "…" + shown[-_LONGEST_NAME // 2 :]
    return shown or "upload"
