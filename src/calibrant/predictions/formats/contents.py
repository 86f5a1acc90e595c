"""Named arrays passed between the formats and their callers."""

from __future__ import annotations

import errno
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from calibrant._math.errors import InputError

# Arrays to write: tensors, and tuples of texts.
Arrays: TypeAlias = Mapping[str, Any]

UNSAFE = "which are not loaded because they could run code"

_ROW = re.compile(r"\brow (\d+)\b")  # in messages, where rows count from 0


@dataclass(frozen=True, kw_only=True)
class FileContents:
    """Contents of a file under the argument names of ``Predictions``."""

    fields: dict[str, Any]
    paths: tuple[Path, ...] = ()
    """Files of the contents, if there are several."""
    lines: Sequence[int] = ()
    """The line of text that each row ends on."""


@contextmanager
def lines_named(lines: Sequence[int]) -> Generator[None]:
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
    said = re.split(r"\n|\. ", str(error).strip())[0].rstrip(".") or type(error).__name__
    said = f"{said[:MOST_SAID]}…" if len(said) > MOST_SAID else said  # some libraries quote the bytes
    if isinstance(error, MemoryError):
        return f"it needs more memory than there is, or is damaged ({said})."
    return f"it cannot be read as {what}; perhaps it was cut off or has the wrong ending ({said})."


@contextmanager
def disk_errors(error: type[Exception]) -> Generator[None]:
    """Raise a library's write errors as ``OSError``."""
    try:
        yield
    except error as found:
        raise OSError(errno.EIO, "perhaps the disk is full") from found
