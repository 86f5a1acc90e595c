"""The runs of a study in one file: a store's content without weights and predictions.

A results file of a grid's study is ``{"common": …, "runs": […], "also": …}``. A run has three tables: its
``settings``, its results ``found``, and how it was ``made``; ``common`` has the entries that all runs share.
``also`` has the page's other data.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.means import rounded
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.store.places import RUNS
from calibrant_lab.sweep.store.store import Store
from calibrant_lab.sweep.tasks.task import RunResult, Task, canonical, run_name

Values: TypeAlias = Mapping[str, Any]
_TABLES = ("settings", "made", "found")
MADE = ("calibrant", "torch", "instructions", "processor")
"""Software and hardware that can change a run's numbers on a CPU."""
DEVICE = "device"  # the name of the GPU, for a run that was made on one; `mps` for that of a Mac


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """A run in a results file."""

    settings: Values  # all that the task was given
    made: Values = field(default_factory=dict[str, Any])
    """The ``version`` of the numbers, what ``MADE`` names, ``device`` and ``cpu_seconds``, if known."""
    found: Values  # content of the page

    @property
    def flat(self) -> dict[str, Any]:
        """Settings and results in one dictionary, with the ``device`` of a GPU run."""
        device = {DEVICE: self.made[DEVICE]} if DEVICE in self.made else {}
        return {**self.settings, **self.found, **device}


def keep(result: RunResult, found: Values, digits: int) -> KeptRun:
    there = {name: value for name, value in result.environment.items() if value is not None}
    made = {"version": result.version, **{name: there[name] for name in MADE if name in there}}
    if there.get(DEVICE, "cpu") != "cpu":
        made[DEVICE] = there[DEVICE]
    if "cpu_seconds" not in found:
        made["cpu_seconds"] = round(result.cpu_seconds, 1)
    return KeptRun(settings=result.settings, made=made, found=shortened(found, digits))


def shortened(value: Any, digits: int) -> Any:
    """Round all numbers to significant digits; None if not finite."""
    if isinstance(value, float):
        return rounded(value, digits)
    if isinstance(value, Mapping):
        return {key: shortened(each, digits) for key, each in value.items()}
    return [shortened(each, digits) for each in value] if isinstance(value, list | tuple) else value


def content_of(runs: Sequence[KeptRun], also: Values) -> dict[str, Any]:
    common = {name: _alike([getattr(run, name) for run in runs]) for name in _TABLES}
    own = [
        {
            name: {key: value for key, value in getattr(run, name).items() if key not in common[name]}
            for name in _TABLES
        }
        for run in runs
    ]
    return {
        "common": {name: table for name, table in common.items() if table},
        **({"also": also} if also else {}),
        "runs": [{name: table for name, table in run.items() if table} for run in own],
    }


def runs_in(content: Values) -> list[KeptRun]:
    common = content["common"]
    return [
        KeptRun(**{name: {**common.get(name, {}), **run.get(name, {})} for name in _TABLES})
        for run in content["runs"]
    ]


def read_runs(path: Path) -> list[KeptRun]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return runs_in(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: not the results file of a study with runs, as papers/sst/results.json is one."
        ) from error


def _alike(tables: Sequence[Values]) -> dict[str, Any]:
    first, *others = tables
    return {
        key: value
        for key, value in first.items()
        if (others or key != "seed") and all(key in each and each[key] == value for each in others)
    }


def united(kept: Sequence[KeptRun], new: Sequence[KeptRun], task: Task) -> list[KeptRun]:
    """Merge runs; a new one replaces an old one with equal settings, unless it recorded less."""
    found: dict[str, KeptRun] = {}
    fuller = set[str]()
    for run in itertools.chain(kept, new):
        settings = task.complete(run.settings)
        own, plain = (canonical(task.deciding(each)) for each in (settings, task.unrecorded(settings)))
        if own != plain:
            fuller.add(plain)
        if own != plain or plain not in fuller:
            found[plain] = run
    return [*found.values()]


def kept_results(grid: Grid, out: Path) -> list[RunResult]:
    """Return a grid's finished runs in order, or runs that recorded less; none without a store."""
    if not (out / RUNS).is_dir():
        return []
    store, task = Store(out), grid.task
    items = grid.items(store.fingerprints())
    found = {each.run: each for each in store.results(task=task.name)}
    results: list[RunResult] = []
    for item in items:
        plain = run_name(task, task.unrecorded(item.settings), item.inputs)
        results += [found[name] for name in (item.run, plain) if name in found][:1]
    return results
