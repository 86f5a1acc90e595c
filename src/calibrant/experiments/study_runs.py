"""The runs of a study: its grid, swept over the store in which it keeps them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant.experiments.engines.engine import Ended, Event
from calibrant.experiments.engines.roster import build_engine
from calibrant.experiments.grid import Grid
from calibrant.experiments.item import Item
from calibrant.experiments.result import RunResult
from calibrant.experiments.store.places import RUNS
from calibrant.experiments.store.store import Store
from calibrant.experiments.study import Session
from calibrant.experiments.sweep import Watcher, sweep


def runs_of(
    file: Path, session: Session, *, out: Path, seeds: int, changes: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Do what the store ``out`` lacks of a grid's runs, and read them all; see :func:`grid_of`.

    Raises:
        InputError: If a run has failed or diverged.
    """
    grid = grid_of(file, seeds=seeds, changes=changes)
    carry_out(grid, session, out)
    found = kept_runs(grid, out)
    if missing := len(grid.points) - len(found):
        raise InputError(
            f"{missing} of {len(grid.points)} runs have diverged; `calibrant runs {out}` shows which."
        )
    return found


def grid_of(file: Path, *, seeds: int, changes: Mapping[str, Any] | None = None) -> Grid:
    """A study's grid with so many seeds; ``changes`` take the place of the file's entries."""
    content = {**tomllib.loads(file.read_text(encoding="utf-8")), **(changes or {})}
    content["axes"] = {**content.get("axes", {}), "seed": list(range(seeds))}
    return Grid.read(content, source=str(file))


def carry_out(grid: Grid, session: Session, out: Path) -> int:
    """Do what the store ``out`` lacks; how many runs are finished, as those that diverged are not.

    Raises:
        InputError: If a run has failed.
    """
    store = Store(out)
    items = grid.items(store.fingerprints())
    report = sweep(items, store, build_engine(session.engine), watcher=_Telling(session, items))
    if report.failed:
        raise InputError(
            f"{report.failed} of {report.total} runs have failed; `calibrant runs {out} --failed` shows why."
        )
    return report.statuses.get("finished", 0)


def kept_results(grid: Grid, out: Path) -> list[RunResult]:
    """The results of every finished run of a grid, in its order; none where there is no store."""
    if not (out / RUNS).is_dir():
        return []
    store = Store(out)
    found = {each.run: each for each in store.results(task=grid.task.name)}
    return [found[item.run] for item in grid.items(store.fingerprints()) if item.run in found]


def kept_runs(grid: Grid, out: Path) -> list[dict[str, Any]]:
    """Settings and finding of every finished run of a grid, whose task is a simulation."""
    return [{**each.settings, **each.rows[0]} for each in kept_results(grid, out)]


class _Telling(Watcher):
    """A line for each run that has ended."""

    def __init__(self, session: Session, items: Sequence[Item]) -> None:
        self._session = session
        self._items = {item.run: item for item in items}

    def event(self, event: Event) -> None:
        if isinstance(event, Ended):
            item = self._items[event.run]
            self._session.tell(f"{item.task.name}: {item.label}: {event.reason or event.status}")
