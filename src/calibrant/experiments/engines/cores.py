"""How many processor cores and GPUs this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def available_cores() -> int:
    """Cores that this process may run on, by its affinity and by the quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def available_gpus() -> int:
    """GPUs that torch sees."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0
