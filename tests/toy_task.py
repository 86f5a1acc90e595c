"""A task for tests of sweeps: quick, and able to go wrong in every way."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from calibrant._math.errors import ConvergenceError, InputError
from calibrant_lab.sweep.tasks.task import (
    RESULT,
    Fingerprints,
    Item,
    Outcome,
    Settings,
    Task,
    Tell,
    make_item,
)

if TYPE_CHECKING:
    from calibrant_lab.sweep.grid import Grid

DEFAULTS: Mapping[str, Any] = {"seed": 0, "value": 1.0, "how": "well", "log": "", "seconds": 0.0, "steps": 1}


class Toy(Task):
    """Squares a value; ``log`` names a file that gets a line whenever a run is begun."""

    name: ClassVar[str] = "toy"
    version: ClassVar[int] = 1

    def complete(self, settings: Settings) -> Settings:
        if unknown := settings.keys() - DEFAULTS.keys():
            raise InputError(f"there is no setting {min(unknown)}.")
        return {**DEFAULTS, **settings}

    def deciding(self, settings: Settings) -> Settings:
        """All but the log, the time and the steps."""
        return {name: value for name, value in settings.items() if name not in {"log", "seconds", "steps"}}

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        if settings["log"]:
            with Path(settings["log"]).open("a", encoding="utf-8") as file:
                file.write(f"{settings['value']} {settings['seed']}\n")
        saved, steps = folder / "steps", settings["steps"]
        while (done := len(saved.read_bytes()) if saved.exists() else 0) < steps:
            time.sleep(settings["seconds"])
            with saved.open("ab") as file:
                file.write(b"x")
            tell((done + 1) / steps, f"step {done + 1}")
        how = settings["how"]
        if how == "diverges":
            raise ConvergenceError("it left all bounds.")
        if how == "fails":
            raise InputError("it cannot be done.")
        if how == "breaks":
            raise RuntimeError("something broke")
        if how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "dies once" and not (folder / "died").exists():
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        number = settings["value"] ** 2 + settings["seed"]
        return Outcome(metrics={RESULT: {"square": number, "nothing": float("nan")}}, rows=[{"epoch": 1}])


def toys(**axes: list[Any]) -> tuple[Item, ...]:
    """Runs of the toy over axes; without a grid, whose tasks would have torch imported."""
    task, found = Toy(), []
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        found.append(make_item(task, task.complete(point), point, Fingerprints()))
    return tuple(found)


def toy_grid(axes: Mapping[str, list[Any]], **content: Any) -> Grid:
    from calibrant_lab.sweep.grid import Grid

    return Grid.read({"axes": axes, **content}, task=Toy())
