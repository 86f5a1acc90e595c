"""The runs of a study's grid, done by a sweep over a store."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant_lab.sweep.engines import build_engine
from calibrant_lab.sweep.engines.engine import Ended, Event
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.item import Item, run_name
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.store.places import RUNS
from calibrant_lab.sweep.store.store import Store
from calibrant_lab.sweep.sweep import Watcher, sweep


def read_grid(file: Path, *, seeds: int | None = None, changes: Mapping[str, Any] | None = None) -> Grid:
    """A grid, with so many seeds if it says so; ``changes`` replace entries of the file."""
    content = {**tomllib.loads(file.read_text(encoding="utf-8")), **(changes or {})}
    if seeds is not None:
        content["axes"] = {**content.get("axes", {}), "seed": list(range(seeds))}
    return Grid.read(content, source=str(file))


def finished_runs(grid: Grid, out: Path, *, engine: str = "pool") -> list[RunResult]:
    """Do what the store ``out`` lacks, and return all runs of the grid in its order.

    Raises:
        InputError: If a run has failed.
    """
    store = Store(out)
    items = grid.items(store.fingerprints())
    report = sweep(items, store, build_engine(engine), watcher=_Telling(items))
    if report.failed:
        raise InputError(
            f"{report.failed} of {report.total} runs have failed; `calibrant runs {out} --failed` shows why."
        )
    return kept_results(grid, out)


def kept_results(grid: Grid, out: Path) -> list[RunResult]:
    """The results of every finished run of a grid, in its order; none where there is no store.

    A run that recorded less stands in for one that is not done.
    """
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


class _Telling(Watcher):
    """A line for each run that has ended."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = {item.run: item for item in items}

    def event(self, event: Event) -> None:
        if isinstance(event, Ended):
            item = self._items[event.run]
            print(f"{item.task.name}: {item.label}: {event.reason or event.status}")  # noqa: T201
