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
from calibrant.experiments.store.places import RUNS
from calibrant.experiments.store.store import Store
from calibrant.experiments.study import Session
from calibrant.experiments.sweep import Watcher, sweep


def runs_of(
    file: Path, session: Session, *, out: Path, seeds: int, changes: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Do what the store ``out`` lacks of a grid's runs, and read them all; see :func:`grid_of`.

    Raises:
        InputError: If a run has failed.
    """
    grid = grid_of(file, seeds=seeds, changes=changes)
    carry_out(grid, session, out)
    return kept_runs(grid, out)


def grid_of(file: Path, *, seeds: int, changes: Mapping[str, Any] | None = None) -> Grid:
    """A study's grid with so many seeds; ``changes`` take the place of the file's entries."""
    content = {**tomllib.loads(file.read_text(encoding="utf-8")), **(changes or {})}
    content["axes"] = {**content.get("axes", {}), "seed": list(range(seeds))}
    return Grid.read(content, source=str(file))


def carry_out(grid: Grid, session: Session, out: Path) -> None:
    """Do what the store ``out`` lacks.

    Raises:
        InputError: If a run has failed.
    """
    items = grid.items()
    report = sweep(items, Store(out), build_engine(session.engine), watcher=_Telling(session, items))
    if missing := report.total - report.statuses.get("finished", 0):
        raise InputError(
            f"{missing} of {report.total} runs have failed; `calibrant runs {out} --failed` shows why."
        )


def kept_runs(grid: Grid, out: Path) -> list[dict[str, Any]]:
    """Settings and findings of every finished run of a grid, in its order; none where there is no store."""
    if not (out / RUNS).is_dir():
        return []
    found = {each.run: each for each in Store(out).results(task=grid.task.name)}
    return [{**item.settings, **found[item.run].rows[0]} for item in grid.items() if item.run in found]


class _Telling(Watcher):
    """A line for each run that has ended."""

    def __init__(self, session: Session, items: Sequence[Item]) -> None:
        self._session = session
        self._items = {item.run: item for item in items}

    def event(self, event: Event) -> None:
        if isinstance(event, Ended):
            item = self._items[event.run]
            self._session.tell(f"{item.task.name}: {item.label}: {event.reason or event.status}")
