"""Receive requests with files into memory, never onto a disk."""

from __future__ import annotations

import asyncio
import io
import os
import re
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from calibrant._math.files import DAMAGE
from calibrant.web.limits import Limits, Refusal, size

T = TypeVar("T")
_LONGEST_NAME = 100
_LONGEST_FIELD = 1 << 16
_LOOK = 0.25  # seconds between two looks whether the client is there
_WRONG = {  # by how the parser's own sentences begin
    "Too many": (413, "a request must have at most {0.files} files and {0.fields} fields."),
    "Part exceeded": (413, f"a field must have at most {_LONGEST_FIELD} bytes; a file has a file name."),
    "Missing boundary": (400, "the request cannot be read: its content type names no boundary."),
    "The Content-Disposition": (400, "the request cannot be read: every part must have a name."),
    "": (400, "the request is not a well-formed multipart/form-data."),
}


@dataclass(frozen=True)
class Upload:
    """Uploaded file."""

    name: str
    """Without a folder, and without what cannot be printed."""
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Form:
    """Content of a request."""

    files: dict[str, list[Upload]]
    fields: dict[str, list[str]]
    """Texts that are not blank."""

    def only(self, name: str) -> Upload:
        found = self.files.get(name, [])
        if len(found) != 1:
            raise Refusal(422, f"the field `{name}` must hold one file; got {len(found) or 'none'}.")
        return found[0]

    def text(self, name: str) -> str | None:
        """Return the text of a field that may be given once; None if it is empty or not there."""
        texts = self.fields.get(name) or [None]
        if len(texts) > 1:
            raise Refusal(422, f"`{name}` must be given once; got {len(texts)} values.")
        return texts[0]


async def while_there(request: Request, work: Awaitable[T]) -> T:
    """Return the result of ``work``; if the client leaves, cancel it and free its bytes."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK))[0]:
            if await request.is_disconnected():
                raise Refusal(400, "the client left before the answer was there.")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


class _InMemory(MultiPartParser):
    """Parser that writes nothing to a disk and reports a missing end."""

    spool_max_size = sys.maxsize
    whole = False

    def on_end(self) -> None:
        self.whole = True


class Receiver:
    """Receives requests within the limits, also of all together."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held = 0
        """Bytes of the requests that are being answered."""

    @asynccontextmanager
    async def form(self, request: Request) -> AsyncGenerator[Form]:
        """Yield a request's form; its bytes count as held until the answer."""
        limits, held = self._limits, 0
        kind, stated = (request.headers.get(name, "") for name in ("content-type", "content-length"))
        if not kind.lower().startswith("multipart/form-data"):
            got = repr(kind[:_LONGEST_NAME] or "no content type")
            raise Refusal(415, f"the request must be multipart/form-data with the field `file`; got {got}.")
        if stated.isdigit() and int(stated) > limits.upload:
            raise _too_large(limits)

        async def counted() -> AsyncGenerator[bytes, None]:
            nonlocal held  # the header can be wrong about it
            async for chunk in request.stream():
                held += len(chunk)
                self.held += len(chunk)
                if held > limits.upload:
                    raise _too_large(limits)
                if self.held > limits.held:
                    raise Refusal(503, "too many uploads are being answered; try again in a few seconds.")
                yield chunk
            if not parser.whole:
                raise Refusal(400, "the request was cut off: the end of the form is missing.")

        most = {"max_files": limits.files, "max_fields": limits.fields, "max_part_size": _LONGEST_FIELD}
        parser = _InMemory(request.headers, counted(), **most)
        try:
            try:
                async with asyncio.timeout(limits.receive):
                    parts = await parser.parse()
            except TimeoutError as error:
                raise Refusal(408, f"the request must come within {limits.receive:g} s.") from error
            except ClientDisconnect as error:
                raise Refusal(400, "the request was cut off.") from error
            except MultiPartException as error:
                status, said = next(_WRONG[start] for start in _WRONG if error.message.startswith(start))
                raise Refusal(status, said.format(limits)) from error
            yield _form(parts)
        finally:
            self.held -= held


def _form(parts: FormData) -> Form:
    form = Form(files={}, fields={})
    for name, part in parts.multi_items():
        if isinstance(part, UploadFile):
            with part.file:
                upload = Upload(bare_name(part.filename or ""), part.file.read())
            form.files.setdefault(name, []).append(upload)
        else:
            form.fields.setdefault(name, []).extend(filter(None, [part.strip()]))
    return form


def _too_large(limits: Limits) -> Refusal:
    return Refusal(413, f"a request must have at most {size(limits.upload)}; --max-upload sets the limit.")


def bare_name(name: str) -> str:
    r"""Return the last part of a path, as a name to show.

    Example:
        >>> bare_name("../../etc/passwd.csv"), bare_name("C:\\temp\\a.npz"), bare_name("/")
        ('passwd.csv', 'a.npz', 'upload')
    """
    last = re.split(r"[\\/]", name.replace("\0", "").rstrip("\\/"))[-1]
    shown = re.sub(r"[^\w .,()+@=-]", "_", last).strip(" .")
    if len(shown) > _LONGEST_NAME:
        shown = shown[: _LONGEST_NAME // 2] + "…" + shown[-_LONGEST_NAME // 2 :]
    return shown or "upload"


_END = b"PK\x05\x06"  # the record of a ZIP archive that says where its list of members is
_END_SIZE = 22
_COMMENT = 1 << 16
_ENTRY = 512  # bytes that the list of members has at most for each
_ZIP, _GZIP, _PARQUET = b"PK\x03\x04", b"\x1f\x8b", b"PAR1"
_PIECE = 1 << 20


def check_packed(content: bytes, name: str, limits: Limits) -> None:
    """Refuse archives with too many members or too much content, by their first bytes."""
    if content.startswith((_ZIP, _END)):
        _check_zip(content, name, limits)
    elif content.startswith(_GZIP):
        _check_gzip(content, name, limits)
    elif content.startswith(_PARQUET):
        _check_parquet(content, name, limits)


def _check_zip(content: bytes, name: str, limits: Limits) -> None:
    """Read the number of members before their list, which could fill the memory."""
    at = content.rfind(_END, max(0, len(content) - _END_SIZE - _COMMENT))
    if at < 0 or len(content) < at + _END_SIZE:
        raise Refusal(422, f"{name}: it is an archive that was cut off.")
    count, length = struct.unpack("<HI", content[at + 10 : at + 16])
    if count > limits.members or length > limits.members * _ENTRY:  # in ZIP64 both are the largest possible
        raise _too_many(name, limits)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
    except DAMAGE as error:
        raise Refusal(422, f"{name}: it is a damaged archive ({error}).") from error
    if len(members) > limits.members:  # a ZIP64 record may say otherwise than the one above
        raise _too_many(name, limits)
    _check_size(sum(each.file_size for each in members), name, limits)


def _check_gzip(content: bytes, name: str, limits: Limits) -> None:
    total, rest = 0, content
    while rest:
        packed = zlib.decompressobj(wbits=31)
        while not packed.eof and rest:
            try:
                total += len(packed.decompress(rest, _PIECE))
            except zlib.error as error:
                raise Refusal(422, f"{name}: it is damaged ({error}).") from error
            _check_size(total, name, limits)
            rest = packed.unused_data if packed.eof else packed.unconsumed_tail
        rest = rest.lstrip(b"\0")  # which may fill the end


def _check_parquet(content: bytes, name: str, limits: Limits) -> None:
    """Count the numbers, since a few bytes can encode a million equal ones."""
    from pyarrow import parquet

    try:
        found = parquet.read_metadata(io.BytesIO(content))
        numbers = found.num_rows * max(1, found.num_columns)
    except DAMAGE as error:
        said = str(error).partition("\n")[0].rstrip(".")
        raise Refusal(422, f"{name}: it is a damaged .parquet file ({said}).") from error
    _check_size(numbers * 8, name, limits)


def _too_many(name: str, limits: Limits) -> Refusal:
    return Refusal(413, f"{name}: an archive must have at most {limits.members} members; it has more.")


def _check_size(count: int, name: str, limits: Limits) -> None:
    if count > limits.unpacked:
        raise Refusal(413, f"{name}: it would take more than {size(limits.unpacked)} when unpacked.")


@contextmanager
def path_of(content: bytes = b"") -> Generator[Path]:
    """Yield a path to a file of these bytes: in memory on Linux, elsewhere in a private temporary folder."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("calibrant")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield Path(f"/proc/self/fd/{descriptor}")
    else:
        with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
            path = Path(folder) / "upload"
            path.write_bytes(content)
            yield path
