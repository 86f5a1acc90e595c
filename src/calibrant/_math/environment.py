"""Reproducibility of numbers: versions, and the hardware that affects rounding of sums."""

from __future__ import annotations

import platform
from pathlib import Path

_FACTS = Path("/proc/cpuinfo")
_NAMES = ("vendor_id", "cpu family", "model", "stepping")


def environment() -> dict[str, str]:
    """Versions of calibrant, Python and PyTorch, vector instructions, and processor model.

    Example:
        >>> [*environment()]
        ['calibrant', 'python', 'torch', 'instructions', 'processor']
    """
    import torch

    from calibrant import __version__

    versions = {"calibrant": __version__, "python": platform.python_version(), "torch": torch.__version__}
    return {**versions, "instructions": torch.backends.cpu.get_cpu_capability(), "processor": processor()}


def processor() -> str:
    """Vendor, family, model and stepping if the system reports them, else Python's name for it.

    Example:
        >>> bool(processor())
        True
    """
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
