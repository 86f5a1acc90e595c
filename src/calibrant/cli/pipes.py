"""Predictions that come through a pipe."""

from __future__ import annotations

import shutil
import stat
import sys
import tempfile
from pathlib import Path

from calibrant._math.errors import InputError

STDIN = frozenset({"-", "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"})


def is_pipe(path: Path) -> bool:
    """Whether it is the standard input, or another pipe."""
    if str(path) in STDIN:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and str(path).startswith("/dev/fd/"))


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def kept_of(path: Path, form: str | None) -> tuple[Path, str, str]:
    """What comes through a pipe, as a file that lasts as long as the process; its format, and its name."""
    folder = tempfile.TemporaryDirectory(prefix="calibrant-")
    _FOLDERS.append(folder)
    file = Path(folder.name) / "stdin"
    with file.open("wb") as kept:
        if str(path) in STDIN:
            if sys.stdin is None or sys.stdin.isatty():
                raise InputError(
                    "- reads predictions from a pipe, and there is none: cat FILE | calibrant ..."
                )
            shutil.copyfileobj(sys.stdin.buffer, kept)
        else:
            with path.open("rb") as piped:
                shutil.copyfileobj(piped, kept)
    return file, form or _guessed(file), "stdin" if str(path) in STDIN else path.name


def _guessed(file: Path) -> str:
    """The format by its first bytes."""
    with file.open("rb") as opened:
        start = opened.read(64)
    if not start:
        raise InputError("nothing came through the pipe.")
    marks = {b"PK": "npz", b"PAR1": "parquet", b"\x1f\x8b": "csv.gz", b"{": "jsonl", b"[": "json"}
    stripped = start.lstrip(b"\xef\xbb\xbf \r\n")
    found = next((form for mark, form in marks.items() if stripped.startswith(mark)), None)
    if found is None and b"\0" in start:
        raise InputError("which format comes through the pipe? Say it by --format.")
    return found or "csv"
