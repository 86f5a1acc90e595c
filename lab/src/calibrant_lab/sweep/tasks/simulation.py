"""A task that computes everything from its settings and a seed: no data, nothing to resume."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from calibrant._math.environment import environment
from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant_lab.sweep.tasks.task import RESULT, Outcome, Settings, Task, Tell


class Simulation(Task):
    """What is found is the one row of the result; the plain numbers of each of its ``arms`` are a stage."""

    defaults: ClassVar[Mapping[str, Any]]  # every setting but the seed, which is 0 by default

    @abstractmethod
    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        """What JSON can hold; ``arms``, if there are any, are mappings with a ``name`` or ``gamma``."""

    def complete(self, settings: Settings) -> Settings:
        return completed(settings, {"seed": 0, **self.defaults})

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        found = self.simulate(settings)
        stages = {_stage(arm): dict(_plain(arm)) for arm in found.get("arms", ())}
        metrics = stages or {RESULT: dict(_plain(found))}
        return Outcome(metrics=metrics, rows=[found], more={"environment": environment()})


def completed(settings: Settings, defaults: Mapping[str, Any]) -> Settings:
    """Settings in place of the defaults, each of the default's kind."""
    for name, value in settings.items():
        if name not in defaults:
            raise InputError(f"there is no setting {name}{nearest(name, defaults)}")
        kinds = (int, float) if isinstance(defaults[name], float) else type(defaults[name])
        if not isinstance(value, kinds) or isinstance(value, bool) != isinstance(defaults[name], bool):
            raise InputError(f"`{name}` must be of the kind of {defaults[name]!r}; got {value!r}.")
    return {name: type(value)(settings.get(name, value)) for name, value in defaults.items()}


def _stage(arm: Mapping[str, Any]) -> str:
    return arm["name"] if "name" in arm else f"gamma={arm['gamma']:g}"


def _plain(found: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, float | None]]:
    """The numbers among what was found, by full names such as ``test.temperature``."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _plain(value, f"{start}{name}.")
        elif value is None or (
            isinstance(value, int | float) and not isinstance(value, bool) and name != "gamma"
        ):
            yield start + name, value
