"""The runs of a study: its grid, swept over a store, and pages of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant._math.environment import environment
from calibrant._math.errors import InputError
from calibrant_lab.sweep.engines.engine import Ended, Event
from calibrant_lab.sweep.engines.roster import build_engine
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.item import Item, run_name
from calibrant_lab.sweep.kept_runs import content_of, differences, keep, runs_in, united
from calibrant_lab.sweep.matching import matches
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.store.places import RUNS
from calibrant_lab.sweep.store.store import Store
from calibrant_lab.sweep.sweep import Watcher, sweep
from papers.study import Page, Session

DEFAULT_STORE = Path("study")


def make_pages(
    session: Session, grid: Grid, pages: Sequence[Page], *, out: Path | None, table: Path | None
) -> list[Path]:
    """Do what the store ``out`` lacks and make the pages there; with ``table`` make them of what there is.

    A page in ``table`` is made of the runs in its results file and of those in the store, if one is named.

    Raises:
        InputError: If a run has failed, or there are no runs.
    """
    if table is None:
        out = out or DEFAULT_STORE
        carry_out(grid, session, out)
    folder, written = table or out or DEFAULT_STORE, list[Path]()
    results = [] if out is None else kept_results(grid, out)
    for page in pages:
        content = None if table is None else page.content(table)
        old = [] if content is None else runs_in(content)
        new = [
            keep(each, found, page.digits)
            for each in results
            if matches(each.settings, page.where) and (found := page.kept(each)) is not None
        ]
        if not old and not new:
            continue
        runs = united(old, new, grid.task)
        kept = [run for run in old if run in runs]
        session.tell(
            f"{page.name}: {len(kept)} runs of its results file, {len(runs) - len(kept)} of the store."
        )
        for line in differences(kept, grid.task, environment()):
            session.tell(f"{page.name}.json: {line}.")
        also = page.also([run.settings for run in runs], (content or {}).get("also", {}))
        content = content_of(runs, {**also, **(size_of(grid) if page.counts else {})})
        written += page.write(content, folder)
    if not written:
        raise InputError(_nothing(pages, out, table))
    return written


def _nothing(pages: Sequence[Page], out: Path | None, table: Path | None) -> str:
    names = " or ".join(f"{page.name}.json" for page in pages)
    if table is None:
        return f"no run of this study in {out} is finished; `calibrant runs {out}` shows what became of them."
    if out is None:
        return f"{table} holds no {names}; leave out --table to do the runs, or name their store by --out."
    return f"neither {out} nor {table} holds a finished run of this study; leave out --table to do some."


def grid_of(file: Path, *, seeds: int | None = None, changes: Mapping[str, Any] | None = None) -> Grid:
    """A study's grid, with so many seeds if it says so; ``changes`` take the place of the file's entries."""
    content = {**tomllib.loads(file.read_text(encoding="utf-8")), **(changes or {})}
    if seeds is not None:
        content["axes"] = {**content.get("axes", {}), "seed": list(range(seeds))}
    return Grid.read(content, source=str(file))


def carry_out(grid: Grid, session: Session, out: Path) -> None:
    """Do what the store ``out`` lacks.

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


def kept_results(grid: Grid, out: Path) -> list[RunResult]:
    """The results of every finished run of a grid, in its order; none where there is no store.

    A run that recorded less stands in for one that is not done.
    """
    if not (out / RUNS).is_dir():
        return []
    store, task = Store(out), grid.task
    found = {each.run: each for each in store.results(task=task.name)}
    results: list[RunResult] = []
    for item in grid.items(store.fingerprints()):
        plain = run_name(task, task.unrecorded(item.settings), item.inputs)
        results += [found[name] for name in (item.run, plain) if name in found][:1]
    return results


def size_of(grid: Grid) -> dict[str, int]:
    """How many runs a grid has, and how many seeds."""
    return {"wanted": len(grid.points), "seeds": len({point.settings.get("seed") for point in grid.points})}


class _Telling(Watcher):
    """A line for each run that has ended."""

    def __init__(self, session: Session, items: Sequence[Item]) -> None:
        self._session = session
        self._items = {item.run: item for item in items}

    def event(self, event: Event) -> None:
        if isinstance(event, Ended):
            item = self._items[event.run]
            self._session.tell(f"{item.task.name}: {item.label}: {event.reason or event.status}")
