"""Extensions by other distributions: entry points, and the sentence about installing them."""

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
    """Load the entry point ``name`` of ``calibrant.extensions``.

    Raises:
        InputError: If no installed distribution provides it; ``what`` names the caller's need.
    """
    for found in entry_points(group="calibrant.extensions", name=name):
        return found.load()
    raise InputError(f"{what} needs calibrant-lab: {LAB}.")
