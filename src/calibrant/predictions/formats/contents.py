"""What passes between the formats and those who use them: arrays by name."""

from __future__ import annotations

import errno
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from calibrant._math.errors import InputError

# What is written: tensors, and tuples of texts.
Arrays: TypeAlias = Mapping[str, Any]

UNSAFE = "which are not loaded because they could run code"

_ROW = re.compile(r"\brow (\d+)\b")  # in messages, where rows count from 0


@dataclass(frozen=True, kw_only=True)
class FileContents:
    """What a file says, under the names of the arguments of ``Predictions``."""

    fields: dict[str, Any]
    paths: tuple[Path, ...] = ()
    """Its files, if there are several."""
    lines: Sequence[int] = ()
    """The line of text that each row ends on."""


@contextmanager
def lines_named(lines: Sequence[int]) -> Generator[None]:
    """Messages that would name a row of a text file name its line instead."""
    try:
        yield
    except InputError as error:
        message = str(error)
        row = _ROW.search(message)
        if row is None or int(row[1]) >= len(lines):  # in what a cell says
            raise
        place = f"line {lines[int(row[1])]}"
        raise InputError(message[: row.start()] + place + message[row.end() :]) from error


MOST_SAID = 200  # characters of a library's own message


def damaged(what: str, error: BaseException) -> str:
    """One sentence for bytes that cannot be read."""
    said = re.split(r"\n|\. ", str(error).strip())[0].rstrip(".") or type(error).__name__
    said = f"{said[:MOST_SAID]}…" if len(said) > MOST_SAID else said  # some libraries quote the bytes
    if isinstance(error, MemoryError):
        return f"it needs more memory than there is, unless it is damaged ({said})."
    return f"it cannot be read as {what}, perhaps it was cut off or has the wrong ending ({said})."


@contextmanager
def disk_errors(error: type[Exception]) -> Generator[None]:
    """What a library raises when the system refuses to write, as the system would say it."""
    try:
        yield
    except error as found:
        raise OSError(errno.EIO, "perhaps the disk is full") from found
