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
from calibrant.experiments.store.store import Store
from calibrant.experiments.study import Session
from calibrant.experiments.sweep import Watcher, sweep


def runs_of(
    grid: Path, session: Session, *, out: Path, seeds: int, changes: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Do what the store lacks; settings and findings of every run, in the grid's order.

    Args:
        grid: The grid's file.
        session: Told of each run.
        out: The folder of the store.
        seeds: How many, in place of the grid's.
        changes: Entries of the grid that take the place of the file's.

    Raises:
        InputError: If a run has failed.
    """
    content = {**tomllib.loads(grid.read_text(encoding="utf-8")), **(changes or {})}
    content["axes"] = {**content.get("axes", {}), "seed": list(range(seeds))}
    items = Grid.read(content, source=str(grid)).items()
    store = Store(out)
    sweep(items, store, build_engine(session.engine), watcher=_Telling(session, items))
    found = {each.run: each for each in store.results(task=items[0].task.name)}
    if missing := [item for item in items if item.run not in found]:
        raise InputError(
            f"{len(missing)} of {len(items)} runs have failed, the first with {missing[0].label}; "
            f"`calibrant runs {out} --failed` shows why."
        )
    return [{**item.settings, **found[item.run].rows[0]} for item in items]


class _Telling(Watcher):
    """A line for each run that has ended."""

    def __init__(self, session: Session, items: Sequence[Item]) -> None:
        self._session = session
        self._items = {item.run: item for item in items}

    def event(self, event: Event) -> None:
        if isinstance(event, Ended):
            item = self._items[event.run]
            self._session.tell(f"{item.task.name}: {item.label}: {event.reason or event.status}")
