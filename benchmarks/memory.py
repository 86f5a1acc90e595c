"""Memory of this process, and of nothing that started it (Linux)."""

from __future__ import annotations

from pathlib import Path


def forget_peak() -> None:
    """Let the peak begin anew at what is held now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # resets VmHWM


def resident(field: str) -> float:
    """A line of /proc/self/status, ``VmRSS`` (now) or ``VmHWM`` (peak), in kilobytes.

    ``getrusage`` also counts what the process was before it started this program.
    """
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field))
