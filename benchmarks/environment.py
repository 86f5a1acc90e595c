"""What the machine and the packages were, written beside every benchmark's numbers."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from calibrant import __version__

RESULTS = Path(__file__).parent / "results"


def environment(*packages: str) -> dict[str, Any]:
    """Processor, cores, Python, commit and the versions of ``packages`` (``None``: not installed)."""
    versions: dict[str, str | None] = {}
    for name in packages:
        try:
            # What an editable installation says of itself is as old as the installation.
            versions[name] = __version__ if name == "calibrant" else metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": versions,
        "commit": commit(),
    }


def commit() -> str | None:
    """The commit that was measured, with a plus where its files were changed; None without git."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    try:
        told = subprocess.run(
            command,
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()


def processor() -> str:
    """The processor's own name, where the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write(name: str, content: dict[str, Any]) -> Path:
    """Write ``content`` to ``results/NAME.json``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path
