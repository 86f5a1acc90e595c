"""Available memory, and errors instead of a killed process."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from calibrant._math.errors import ShortOfMemoryError

_GROUP = Path("/sys/fs/cgroup")
_GIB = 1 << 30


def is_shortage(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error))


def give_back(num_samples: int) -> None:
    """After work on many samples, return the memory of freed arrays that glibc keeps between others."""
    from calibrant._math.threads import MANY  # torch, which the command line loads late

    if sys.platform == "linux" and num_samples > MANY:
        import ctypes

        with suppress(AttributeError):  # other C libraries
            ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def bounded_memory() -> Generator[None]:
    """Raise a ``ShortOfMemoryError`` beyond the available memory, before Linux kills the process."""
    left = available_memory()
    try:
        with _limited_to(left):
            yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, ShortOfMemoryError) or not is_shortage(error):
            raise
        number = "" if left is None else f": {left / _GIB:.2g} GiB are left"
        raise ShortOfMemoryError(f"this needs more memory than there is{number}.") from error


def available_memory() -> int | None:
    """Bytes that this process can still allocate, by the system, its control group and its limits.

    None if unknown, as outside Linux.
    """
    if sys.platform != "linux":
        return None
    import resource

    with suppress(OSError, ValueError, KeyError):
        lines = (line.split() for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        sizes = {line[0]: 1024 * int(line[1]) for line in lines}
        left = sizes["MemAvailable:"] + sizes["SwapFree:"]
        with suppress(OSError, ValueError):  # "max" is no number
            most = int((_GROUP / "memory.max").read_text(encoding="ascii"))
            left = min(left, most - int((_GROUP / "memory.current").read_text(encoding="ascii")))
        limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
        return max(0, left if limit == resource.RLIM_INFINITY else min(left, limit - _taken()))
    return None


@contextmanager
def _limited_to(left: int | None) -> Generator[None]:
    if left is None or sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_taken() + left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _taken() -> int:
    """Bytes of anonymous memory of this process."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[5]
    return os.sysconf("SC_PAGE_SIZE") * int(pages)
