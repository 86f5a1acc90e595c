"""A short table of runs: means over seeds, for the end of a sweep."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from calibrant._math.means import mean_of, plus_minus
from calibrant_lab.sweep.estimates import said_time
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.tasks.fingerprints import canonical

_COLUMNS = (("error", None, "error %"), ("ece", None, "ECE %"), ("ece", "temperature", "after temperature %"))
_MOST = 60


def summary_table(results: Sequence[RunResult]) -> Table:
    """A row for each combination of the axes but the seed: mean and 95 % interval of the finished runs."""
    axes = list(dict.fromkeys(name for each in results for name in each.axes if name != "seed"))
    groups: dict[str, list[RunResult]] = {}
    for each in results:
        groups.setdefault(canonical([each.settings.get(name) for name in axes]), []).append(each)
    values = [
        (name, stage, title)
        for name, stage, title in _COLUMNS
        if any(each.value(name, stage) is not None for each in results)
    ]
    table = Table(*axes, "runs", *(title for *_, title in values), "time")
    notes: list[str] = []
    have_intervals = False
    for runs in list(groups.values())[:_MOST]:
        done = [each for each in runs if each.status == "finished"]
        cells = [_mean(done, name, stage) for name, stage, _ in values]
        have_intervals = have_intervals or any("±" in cell for cell in cells)
        time = said_time(sum(each.wall_seconds for each in done) / len(done)) if done else "–"
        settings = [str(runs[0].settings.get(name)) for name in axes]
        count = str(len(done)) if len(done) == len(runs) else f"{len(done)} of {len(runs)}"
        table.add_row(*settings, count, *cells, time)
    if len(groups) > _MOST:
        notes.append(f"and {len(groups) - _MOST} more rows")
    if have_intervals:
        notes.append("±: 95 % interval of the mean over seeds")
    table.caption = "; ".join(notes) or None
    return table


def _mean(runs: Sequence[RunResult], name: str, stage: str | None) -> str:
    found = [each.value(name, stage) for each in runs]
    known = [value for value in found if value is not None]
    return plus_minus(mean_of(known), 2, 100) if known else "–"
