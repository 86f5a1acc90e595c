"""Output streams whose reader may leave, and the console for errors and notes."""

from __future__ import annotations

import os
import unicodedata
from typing import Any, TextIO, TypeVar, cast

from rich.console import Console

Stream = TypeVar("Stream", TextIO, None)


def outlet(stream: Stream) -> Stream:
    """Return a stream that drops its output once its reader has left.

    Otherwise a reader that stops ends the command with exit code 1, which means a failed check. A stream that
    was closed before the start is None, and stays so.
    """
    if stream is None:
        return stream
    return cast(Any, _Outlet(stream))


class _Outlet:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._close()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._close()
            self._stream.flush()

    def _close(self) -> None:
        """Redirect the file descriptor to the null device."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


class _Escaping(Console):
    """A console that escapes control characters in names."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(_escaped(each) if isinstance(each, str) else each for each in objects), **options)


def _escaped(text: str) -> str:
    return "".join(
        each if each in "\n\t" or unicodedata.category(each) != "Cc" else repr(each)[1:-1] for each in text
    )


def errors() -> Console:
    return _Escaping(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
