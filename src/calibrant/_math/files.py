"""Files that are whole or not there."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Generator[Path]:
    """Give a temporary path to write to; on success it replaces ``path``, on any error it vanishes.

    The temporary file lies in the same folder (a rename across disks would not be atomic) and has the same
    ending, for writers that choose the format by it. A link is written through, a file that was there keeps
    its permissions.

    Raises:
        OSError: If the folder is missing or may not be written to, or ``path`` is not a plain file; one
        sentence.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the name of a file in it.")
    if target.exists() and not target.is_file():
        raise OSError(f"{path} is not a plain file, so it cannot be replaced.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {Path(path).parent}.")
    temporary = target.with_name(f".calibrant-{secrets.token_hex(8)}{target.suffix}")
    try:
        try:
            temporary.touch(exist_ok=False)  # with the permissions of any new file, which tempfile denies
        except OSError as error:
            raise type(error)(f"{path} cannot be written: {error.strerror}.") from error
        mode = (target if target.exists() else temporary).stat().st_mode
        yield temporary
        temporary.chmod(stat.S_IMODE(mode))  # some writers make a new file of their own
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
