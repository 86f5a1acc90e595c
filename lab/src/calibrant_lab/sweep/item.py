"""One run to be done, and the name that it is known by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant_lab.sweep.tasks.fingerprints import Fingerprints, canonical
from calibrant_lab.sweep.tasks.task import Settings, Task

IDENTITY = 1
"""The version of the way in which runs are named."""
_DIGITS = 20


@dataclass(frozen=True, kw_only=True)
class Item:
    """One run to be done: ``settings`` (all), ``axes`` that the grid varies, and fingerprints of its data.

    Its name ``run`` is a hash of what decides its numbers.
    """

    task: Task
    settings: Settings
    axes: Mapping[str, Any]
    inputs: Mapping[str, str]
    run: str

    @property
    def label(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.axes.items()) or self.task.name


def make_item(task: Task, settings: Settings, axes: Mapping[str, Any], fingerprints: Fingerprints) -> Item:
    """Find the data's fingerprints and name the run; ``settings`` are complete."""
    inputs = dict(task.inputs(settings, fingerprints))
    return Item(task=task, settings=settings, axes=axes, inputs=inputs, run=run_name(task, settings, inputs))


def run_name(task: Task, settings: Settings, inputs: Mapping[str, str]) -> str:
    """Hash of what decides a run's numbers: task and version, deciding settings, data."""
    content = [IDENTITY, task.name, task.version, task.deciding(settings), inputs]
    return hashlib.sha256(canonical(content).encode()).hexdigest()[:_DIGITS]
