"""The machine: cores, threads and worker processes, memory, Ray, and what affects the rounding of sums."""

from __future__ import annotations

import atexit
import os
import platform
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from calibrant._math.errors import InputError, ShortOfMemoryError, without_warnings

# Torch and pools of threads are imported late, for the command line.

Item = TypeVar("Item")
Result = TypeVar("Result")

SMALL = 1 << 20
"""Entries of a table below which waking threads costs more than they bring, up to several times as much."""
MANY = 1 << 18
"""Samples above which tasks that copy all of them run one after another, because they need much memory."""

_GROUP = Path("/sys/fs/cgroup")
_GIB = 1 << 30
_FACTS = Path("/proc/cpuinfo")
_NAMES = ("vendor_id", "cpu family", "model", "stepping")


def environment() -> dict[str, str]:
    """Versions of calibrant, Python and PyTorch, vector instructions, and processor model."""
    import torch

    from calibrant import __version__

    versions = {"calibrant": __version__, "python": platform.python_version(), "torch": torch.__version__}
    return {**versions, "instructions": torch.backends.cpu.get_cpu_capability(), "processor": processor()}


def processor() -> str:
    """Vendor, family, model and stepping if the system reports them, else Python's name for it."""
    try:
        lines = _FACTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    if not all(name in found for name in _NAMES):
        return platform.processor() or platform.machine() or "unknown"
    vendor, *numbers = (found[name] for name in _NAMES)
    return f"{vendor} {'-'.join(numbers)}"


def available_cores() -> int:
    """Cores available to this process, by its affinity and its control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = (_GROUP / "cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def available_gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def pinned_threads(threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {name: str(threads) for name in names} | {"OMP_WAIT_POLICY": "PASSIVE"}


def pin_threads(threads: int) -> None:
    """Limit this worker to ``threads`` cores, whether or not torch is loaded yet."""
    os.environ.update(pinned_threads(threads))
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)


@contextmanager
def changed_environment(changes: dict[str, str]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def at_once(num_samples: int) -> int | None:
    """Number of threads for tasks that copy all samples; ``None`` for the number of processors."""
    return 1 if num_samples > MANY else None


@contextmanager
def one_thread() -> Generator[None]:
    """Use one thread, then restore the number: sums by several threads differ in the last bit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_for(num_entries: int) -> AbstractContextManager[None]:
    """Use one thread for operations on few entries, then restore the number."""
    import torch

    return nullcontext() if num_entries >= SMALL or torch.get_num_threads() == 1 else one_thread()


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], *, most: int | None = None
) -> Iterator[Result]:
    """Results in the order of the items, each as soon as it and its predecessors are ready.

    Use it for work that releases the interpreter lock: compiled code, NumPy's draws, torch's operations.
    ``most`` limits the threads, by default to the number of processors.
    """
    from concurrent.futures import ThreadPoolExecutor

    waiting = list(items)
    workers = min(len(waiting), most or os.cpu_count() or 1)
    if workers < 2:
        yield from map(function, waiting)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(function, waiting)


def is_shortage(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error))


def give_back(num_samples: int) -> None:
    """After work on many samples, return the memory of freed arrays that glibc keeps between others."""
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


def check_address(address: str) -> None:
    if address.startswith("ray://"):
        raise InputError(
            f"`address` must be that of the cluster itself, not of its client; got {address}; "
            'start on a node of the cluster, with address="auto".'
        )


def connect(address: str, *, cores: int, store_bytes: int) -> tuple[Any, bool]:
    """``ray``, connected, and whether this call started it; an empty ``address`` starts a local Ray."""
    check_address(address)
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise InputError("the engine ray needs Ray: pip install 'calibrant[ray]'.") from error
    if ray.is_initialized():
        return ray, False
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    local = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": store_bytes}
    settings |= {"address": address} if address else {"address": "local"} | local
    try:
        with without_warnings():
            ray.init(**settings)
    except (ConnectionError, RuntimeError, ValueError, ImportError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"no Ray was reached at {address or 'this machine'}: {said}") from error
    return ray, True


@contextmanager
def connected(address: str, *, cores: int, store_bytes: int) -> Generator[Any]:
    ray, ours = connect(address, cores=cores, store_bytes=store_bytes)
    if ours:
        atexit.register(ray.shutdown)
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()
            atexit.unregister(ray.shutdown)
