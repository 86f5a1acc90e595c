"""Bytes that readers of files can open by a path."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def path_of(content: bytes = b"") -> Generator[Path]:
    """A path to a file of these bytes, which on Linux is memory alone.

    Elsewhere it is a temporary file, in a folder that nobody else may open and that vanishes with it.
    """
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
