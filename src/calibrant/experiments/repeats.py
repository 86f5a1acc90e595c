"""A sample of the runs in results files, done again from their settings: do they give the same numbers?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.experiments.engines.serial import Serial
from calibrant.experiments.grid import Grid
from calibrant.experiments.item import make_item
from calibrant.experiments.kept_runs import KeptRun, runs_in, shortened
from calibrant.experiments.pages import table
from calibrant.experiments.store.store import Store
from calibrant.experiments.study import Page, Study
from calibrant.experiments.study_runs import grid_of
from calibrant.experiments.sweep import sweep
from calibrant.experiments.tasks.simulation import environment

ONE_IN = 50
_TIMES = frozenset({"cpu_seconds", "wall_seconds", "seconds"})
"""What no repetition gives again."""


def sample_of(runs: int, one_in: int = ONE_IN) -> list[int]:
    """Which of so many runs are done again: evenly spread, one at least.

    Example:
        >>> sample_of(164), sample_of(3)
        ([20, 61, 102, 143], [1])
    """
    chosen = max(1, math.ceil(runs / one_in))
    return [(2 * k + 1) * runs // (2 * chosen) for k in range(chosen)]


def repeated_runs(study: Study, page: Page, folder: Path, store: Path) -> Iterator[dict[str, Any]]:
    """A sample of a page's runs done again in a store, each with what differs.

    Args:
        study: The study, which has a grid.
        page: Its page.
        folder: Where its results file lies.
        store: An empty folder.
    """
    if study.grid is None:
        raise ValueError(f"{study.name} has no grid.")
    runs, grid = runs_in(page.content(folder)), grid_of(study.grid)
    for index in sample_of(len(runs)):
        yield {"page": page.name, "run": index, "of": len(runs), **_again(grid, page, runs[index], store)}


def _again(grid: Grid, page: Page, run: KeptRun, store: Path) -> dict[str, Any]:
    task, place = grid.task, Store(store)
    item = make_item(task, task.complete(run.settings), {}, place.fingerprints())
    sweep([item], place, Serial())
    result = place.result(item.run)
    kept = page.kept(result) if result.status == "finished" else None
    here = environment()
    return {
        "seed": run.settings.get("seed"),
        "loss": run.settings.get("loss"),
        "made": {name: value for name, value in run.made.items() if name != "version"},
        "here": {name: here[name] for name in ("calibrant", "torch", "instructions")},
        "cpu_seconds": round(result.cpu_seconds, 1),
        **(
            {"numbers": 0, "unequal": None, "largest": None}
            if kept is None
            else apart(run.found, shortened(kept, page.digits))
        ),
    }


def apart(found: Mapping[str, Any], again: Mapping[str, Any]) -> dict[str, Any]:
    """How many numbers there are, how many are unequal, and the calibration errors that differ most.

    A number that only the repetition has, as one that is recorded by now, is not compared; one that it lacks
    is unequal.

    Example:
        >>> apart({"ece": 0.1, "norms": [1.0, 2.0], "cpu_seconds": 3.0}, {"ece": 0.12, "norms": [1.0, 2.0]})
        {'numbers': 3, 'unequal': 1, 'largest': {'name': 'ece', 'found': 0.1, 'again': 0.12}}
    """
    first, second = dict(_numbers(found)), dict(_numbers(again))
    unequal = [name for name, value in first.items() if second.get(name) != value]
    errors = {
        name: abs(first[name] - second[name])
        for name in unequal
        if name.rpartition(".")[2] == "ece" and name in second
    }
    worst = max(errors, key=errors.__getitem__, default=None)
    return {
        "numbers": len(first),
        "unequal": len(unequal),
        "largest": worst and {"name": worst, "found": first[worst], "again": second[worst]},
    }


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key not in _TIMES:
                yield from _numbers(each, f"{name}.{key}".lstrip("."))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, each in enumerate(value):
            yield from _numbers(each, f"{name}.{index}".lstrip("."))
    elif isinstance(value, int | float):
        yield name, float(value)


_ABOUT = (
    "Of the runs in a results file one in {one_in}, at least one, was done again from its settings alone, "
    "with calibrant {calibrant} and PyTorch {torch} on {instructions}; all numbers that the file keeps of a "
    "run were compared, to its last digit. Written by `python docs/results/repeat_runs.py PAGE ...`; run by "
    "run in `repeats.json`. Studies that read prediction files have no runs and are not here."
)
_COST = (
    "The time is that of the runs done again, on one core, and for all runs of the page that many times as "
    "much; where a page says what its own runs took, that is the better number."
)


def page_of_repeats(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page of runs done again, in Markdown."""
    heads = (
        "page",
        "runs",
        "done again",
        "equal",
        "made with",
        "largest gap of an ECE",
        "CPU s a run",
        "CPU h",
    )
    pages = dict.fromkeys(row["page"] for row in rows)
    lines = [_row([row for row in rows if row["page"] == page]) for page in pages]
    about = _ABOUT.format(one_in=ONE_IN, **rows[0]["here"])
    unequal = [row for row in rows if row["unequal"]]
    recorded = sum("instructions" in row["made"] for row in unequal)
    equal = f"{len(rows) - len(unequal)} of {len(rows)} runs gave every number again."
    others = (
        f" Of the {len(unequal)} others {len(unequal) - recorded} were made by versions or on a processor "
        "that were not recorded, so that the reason cannot be told: processors with other vector "
        "instructions round otherwise, and training magnifies that."
    )
    found = equal + (others if unequal else "")
    return "\n\n".join(["# Runs done again", about, found, table(heads, lines), _COST]) + "\n"


def _row(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    page, runs = rows[0]["page"], rows[0]["of"]
    each = sum(row["cpu_seconds"] for row in rows) / len(rows)
    gaps = [(abs(gap["found"] - gap["again"]), gap) for row in rows if (gap := row["largest"])]
    worst = max(gaps, key=lambda one: one[0])[1] if gaps else None
    made = dict.fromkeys(" ".join(map(str, row["made"].values())) or "not recorded" for row in rows)
    return [
        f"[{page}]({page}.md)",
        str(runs),
        str(len(rows)),
        str(sum(not row["unequal"] for row in rows)),
        "; ".join(made),
        "–" if worst is None else f"{worst['found']:.4f}, {worst['again']:.4f} ({worst['name']})",
        f"{each:.1f}",
        f"{runs * each / 3600:.2f}",
    ]
