"""Cached work of a study: its grid's runs, swept over a store, and other records."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.files import write_text
from calibrant_lab.sweep.display import Estimates, SweepDisplay
from calibrant_lab.sweep.engines import build_engine
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.kept_runs import kept_results
from calibrant_lab.sweep.store.store import Store
from calibrant_lab.sweep.sweep import sweep
from calibrant_lab.sweep.tasks.task import RunResult


def finished_runs(grid: Grid, out: Path, *, engine: str = "pool") -> list[RunResult]:
    """Do missing runs of the store ``out``; return all of the grid in order; raise if one failed."""
    store = Store(out)
    items = grid.items(store.fingerprints())
    display = SweepDisplay(Estimates(grid.task, store.results()))
    report = sweep(items, store, build_engine(engine), watcher=display)
    if report.failed:
        raise InputError(
            f"{report.failed} of {report.total} runs have failed; `calibrant runs {out} --failed` shows why."
        )
    return kept_results(grid, out)


class Records:
    """File of records by ``key``; damaged lines are refused, except a truncated last one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, Mapping[str, Any]] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                self._records[record["key"]] = record
            except (ValueError, KeyError, TypeError) as error:
                if number < len(lines):
                    raise InputError(f"{path}, line {number}, is not a record of a study.") from error
                write_text(path, "".join(f"{kept}\n" for kept in lines[:-1]))

    def get(self, key: str, compute: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the record of a key; compute and write it if missing."""
        if key not in self._records:
            record = {"key": key, **compute()}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, allow_nan=False) + "\n")
            self._records[key] = record
        return self._records[key]
