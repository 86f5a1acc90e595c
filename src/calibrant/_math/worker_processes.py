"""Cores and GPUs available to this process, and the threads of worker processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path


def available_cores() -> int:
    """Cores available to this process, by its affinity and its control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
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
