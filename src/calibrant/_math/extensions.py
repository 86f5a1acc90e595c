"""What other distributions add: entry points, and the sentence that says what to install."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from calibrant._math.errors import InputError

LAB = "pip install 'calibrant[lab]'"
LAB_COMMANDS = ("train", "predict", "sweep", "runs", "table", "curvature", "heatmap", "convert")
"""Commands of calibrant-lab, so that a missing one is explained."""


def extensions(group: str) -> Iterator[EntryPoint]:
    yield from entry_points(group=group)


def extension(name: str, *, what: str) -> Any:
    """What the entry point ``name`` of ``calibrant.extensions`` gives.

    Raises:
        InputError: If nothing is installed that has it; ``what`` names what needed it.

    Example:
        >>> extension("cold-fusion", what="this")
        Traceback (most recent call last):
        calibrant._math.errors.InputError: this needs calibrant-lab: pip install 'calibrant[lab]'.
    """
    for found in entry_points(group="calibrant.extensions", name=name):
        return found.load()
    raise InputError(f"{what} needs calibrant-lab: {LAB}.")
