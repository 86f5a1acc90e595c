"""What is said of an error that is no fault of the user's."""

from __future__ import annotations

import platform
import traceback
from pathlib import Path

import calibrant
from calibrant.cli.terminal import command_line, errors

PACKAGE = Path(__file__).parents[1]
FAULT = 3  # the exit code; 1 is that of a failed gate, 2 that of wrong input
_VERSIONS_OF = ("torch", "numpy", "numba", "scipy")


def report_fault(error: Exception) -> int:
    """Show the traceback and ask for a report; gives the exit code."""
    said = traceback.format_exception_only(error)[-1].strip()
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if PACKAGE in Path(frame.filename).parents]
    place = ""
    if ours:
        file = Path(ours[-1].filename).relative_to(PACKAGE).as_posix()
        place = f" ({file}, line {ours[-1].lineno})"
    lines = [
        "".join(traceback.format_exception(error)),
        "calibrant: this is a fault of calibrant, not of your input.",
        "Please report it with the traceback above and these lines:",
        f"  {said}{place}",
        f"  {command_line()}",
        f"  {_versions()}",
    ]
    errors().print("\n".join(lines), style="red")
    return FAULT


def _versions() -> str:
    """Versions without importing anything: what failed may be an import."""
    from importlib.metadata import PackageNotFoundError, version

    found = [f"calibrant {calibrant.__version__}", f"Python {platform.python_version()}"]
    for name in _VERSIONS_OF:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join([*found, platform.platform()])
