"""Limits of one request, and the sentences that refuse more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one server; sizes in bytes, times in seconds."""

    upload: int = 64 * MIB
    """Largest request, as it comes."""
    held: int = 256 * MIB
    """Largest size of all requests that are being answered, together."""
    files: int = 64
    """Most files in one request."""
    fields: int = 64
    """Most fields in one request, beside its files."""
    members: int = 1000
    """Most members of an archive."""
    unpacked: int = 1024 * MIB
    """Largest file, once it is no longer compressed."""
    pixels: int = 40_000_000
    """Most pixels of an image."""
    receive: float = 60.0
    """Longest time to send a request."""
    compute: float = 120.0
    """Longest time to answer it."""
    waiting: int = 64
    """Most evaluations that wait for their turn."""
    memory: int = 4096 * MIB
    """Memory of an evaluation beyond its process's needs; enforced on Linux only."""


class Refusal(Exception):  # noqa: N818 (it is an answer)
    """Answer with a status and one sentence, and perhaps the columns of the table."""

    def __init__(self, status: int, sentence: str, columns: Sequence[str] = ()) -> None:
        super().__init__(status, sentence, columns)
        self.status, self.sentence, self.columns = status, " ".join(sentence.split()), tuple(columns)

    @property
    def told(self) -> dict[str, Any]:
        return {"error": self.sentence} | ({"columns": self.columns} if self.columns else {})


def size(count: int) -> str:
    """Format a number of bytes.

    Example:
        >>> size(64 * MIB), size(2048)
        ('64 MiB', '2 KiB')
    """
    return f"{count / MIB:.4g} MiB" if count >= MIB else f"{count / 1024:.4g} KiB"
