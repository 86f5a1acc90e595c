"""Atomic writing of files, and their error messages."""

from __future__ import annotations

import errno
import filecmp
import os
import pickle
import secrets
import shutil
import stat
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from calibrant._math.errors import ConvergenceError, InputError, NotFittedError

_LONGEST = 200  # characters of a path in a message
_LEFT_OVER = 3600  # seconds; no file takes so long to write
_ROOM = 2**16  # bytes; with less free, a full disk is blamed for an unknown error

# Errors of file-format readers on malformed bytes, in addition to their own types.
DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    zlib.error,
)


def reason(error: Exception) -> str:
    """A reader's message about damaged bytes, as one clause for the middle of a sentence."""
    said = str(error).strip() or type(error).__name__
    return said.splitlines()[0].rstrip(".: ")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Generator[Path]:
    """Give a temporary path to write to; on success it replaces ``path``, on any error it vanishes.

    The temporary file is in the same folder (a rename across disks would not be atomic) and has the same
    ending, for writers that choose the format by it. Links are written through; an existing file keeps its
    permissions.

    Raises:
        OSError: If the folder is missing or not writable, ``path`` is no plain file or its name too long, or
        the disk is full; one sentence.
    """
    with said_of(path, "written"):
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise IsADirectoryError(f"{path} is a directory; give the name of a file in it.")
        if target.exists() and not target.is_file():
            raise OSError(f"{path} is not a plain file, so it cannot be replaced.")
        if not target.parent.is_dir():
            raise FileNotFoundError(f"{path} cannot be written: there is no folder {Path(path).parent}.")
        with suppress(FileNotFoundError):  # finds a name that is too long before the work
            target.lstat()
    temporary = target.with_name(f".calibrant-{secrets.token_hex(8)}{target.suffix}")
    try:
        with said_of(path, "written"):
            temporary.touch(exist_ok=False)  # with the permissions of any new file, which tempfile denies
            mode = (target if target.exists() else temporary).stat().st_mode
            with said_of_full_disk(target.parent):
                yield temporary
            temporary.chmod(stat.S_IMODE(mode))  # some writers make a new file of their own
            temporary.replace(target)
    finally:
        with suppress(OSError):  # a read-only disk refuses it even if there is no file
            temporary.unlink()


def remove_left_over(folder: Path) -> None:
    """Remove temporary files of killed processes that are at least an hour old."""
    for each in folder.glob(f".calibrant-{'[0-9a-f]' * 16}*"):
        with suppress(OSError):
            if time.time() - each.stat().st_mtime > _LEFT_OVER:
                each.unlink()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_unless_other(path: Path, write: Callable[[Path], None], *, option: str, force: bool) -> None:
    """Write a file, but refuse to replace different content, so that a command can be repeated."""
    if force or not path.is_file():
        write(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / path.name
        try:
            write(made)
        except InputError as error:
            raise InputError(str(error).replace(str(made), str(path))) from error
        same = filecmp.cmp(made, path, shallow=False)
    if not same:
        raise InputError(
            f"{option} {path} already exists and has other content; use --force to overwrite it."
        )


@contextmanager
def said_of(path: str | os.PathLike[str], what: str) -> Generator[None]:
    """Turn system errors about a file into, say, ``x cannot be written: No space left on device``."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # a sentence already
            raise
        raise type(error)(f"{_shown(path)} cannot be {what}: {error.strerror}.") from error


@contextmanager
def said_of_full_disk(folder: Path) -> Generator[None]:
    """Report a full disk as the system's own error, whatever the writer raised."""
    try:
        yield
    except (OSError, InputError, NotFittedError, ConvergenceError):
        raise
    except Exception as error:
        if shutil.disk_usage(folder).free < _ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise


def _shown(path: str | os.PathLike[str]) -> str:
    text = str(path)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def file_or_data(name: str) -> Path | None:
    """File at that path, or inside the folder that ``CALIBRANT_DATA`` names."""
    root = os.environ.get("CALIBRANT_DATA")
    paths = (Path(name), *([Path(root) / name] if root else []))
    return next((path for path in paths if path.is_file()), None)
