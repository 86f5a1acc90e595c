"""Show a sweep on the terminal: time estimates, progress bars, and final means over seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from calibrant._math.means import mean_of, plus_minus
from calibrant_lab.sweep.engines import Ended
from calibrant_lab.sweep.sweep import Watcher
from calibrant_lab.sweep.tasks.task import Item, RunResult, Settings, Task, canonical


class Estimates:
    """Mean times of runs that differ only by seed; else of equally large runs; else of all."""

    def __init__(self, task: Task, results: Iterable[RunResult] = ()) -> None:
        self._task = task
        self._times: dict[str, list[float]] = defaultdict(list)
        for each in results:
            if each.task == self._task.name and each.status == "finished":
                self.note(each.settings, each.wall_seconds)

    def note(self, settings: Settings, seconds: float) -> None:
        for key in self._keys(settings):
            self._times[key].append(seconds)

    def seconds(self, settings: Settings) -> float | None:
        times = next((self._times[key] for key in self._keys(settings) if key in self._times), [])
        return sum(times) / len(times) if times else None

    def left(self, items: Sequence[Item], jobs: int) -> float | None:
        """Return the total time of these runs, ``jobs`` at once; None if one is unknown."""
        each = [seconds for item in items if (seconds := self.seconds(item.settings)) is not None]
        return max(sum(each) / min(jobs, len(each)), *each) if each and len(each) == len(items) else None

    def _keys(self, settings: Settings) -> tuple[str, str, str]:
        alike = {name: value for name, value in settings.items() if name != "seed"}
        sized = {name: settings.get(name) for name in self._task.costly}
        return canonical(["alike", alike]), canonical(["sized", sized]), "all"


def said_time(seconds: float) -> str:
    """Format a time for people.

    Example:
        >>> said_time(42.3), said_time(600), said_time(10_000), said_time(200_000)
        ('42 s', '10 min', '2.8 h', '2.3 days')
    """
    for limit, unit, name in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.{int(name == 'h')}f} {name}"
    return f"{seconds / 86_400:.1f} days"


_WIDTH = 48  # characters of a run's label


class SweepDisplay(Watcher):
    """Bars on stderr for the sweep and its active runs; without a terminal, a line per run."""

    def __init__(self, estimates: Estimates) -> None:
        self._estimates, console = estimates, Console(stderr=True, soft_wrap=True)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[words]}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._running: dict[str, TaskID] = {}
        self._left: dict[str, Item] = {}
        self._shares: dict[str, float] = {}
        self._total = self._done = self._failed = 0
        self._jobs, self._is_waiting = 1, False

    def start(self, items: Sequence[Item], done: int, jobs: int) -> None:
        if items:
            self._left = {item.run: item for item in items}
            self._total, self._done, self._jobs = done + len(items), done, jobs
            self._bars.start()
            self._sweep = self._bars.add_task("", total=self._total, completed=done, words="")
            self._refresh()

    def progress(self, run: str, share: float, words: str) -> None:
        if run not in self._left:
            return
        self._shares[run] = share
        if run not in self._running:
            label = self._left[run].label
            label = label if len(label) <= _WIDTH else f"{label[: _WIDTH - 1]}…"
            self._running[run] = self._bars.add_task(f"  {label}", total=1.0, words="")
        self._bars.update(self._running[run], completed=share, words=words)
        self._refresh()

    def ended(self, end: Ended) -> None:
        if end.run not in self._left:
            return
        if end.run in self._running:
            self._bars.remove_task(self._running.pop(end.run))
        self._shares.pop(end.run, None)
        item = self._left[end.run]
        if end.state == "died":
            self._say(f"{item.label}: {end.reason} It will be tried again.")
        elif end.state == "done":
            del self._left[end.run]
            self._done += 1
            self._failed += end.status == "failed"
            if end.status != "finished":
                self._say(f"{item.label}: {end.status}: {end.reason}")
            else:
                self._estimates.note(item.settings, end.seconds)
                if not self._bars.console.is_terminal:
                    self._say(f"{item.label}  {said_time(end.seconds)}  {end.shown}{self._said_left()}")
        self._refresh()

    def waiting(self, runs: int) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            last = "the last run is" if runs == 1 else f"the last {runs} runs are"
            self._say(f"{last} running in another sweep; waiting for it")

    def stop(self) -> None:
        if self._total:
            self._bars.stop()

    def _refresh(self) -> None:
        failed = f", {self._failed} failed" if self._failed else ""
        said, words = f"{self._done} of {self._total} runs{failed}", self._said_left().removeprefix("; ")
        self._bars.update(self._sweep, description=said, completed=self._done, words=words)

    def _said_left(self) -> str:
        left = self._estimates.left(list(self._left.values()), self._jobs)
        if left is None or not self._left:
            return ""
        known = {run: self._estimates.seconds(self._left[run].settings) or 0 for run in self._shares}
        left -= sum(share * known[run] for run, share in self._shares.items()) / self._jobs
        return f"; about {said_time(max(left, 0))} left"

    def _say(self, line: str) -> None:
        count = f"{self._done}/{self._total}"
        self._bars.console.print(f"{count:>9}  {line}", markup=False, highlight=False)


_COLUMNS = (("error", None, "error %"), ("ece", None, "ECE %"), ("ece", "temperature", "after temperature %"))
_MOST = 60


def summary_table(results: Sequence[RunResult]) -> Table:
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
    have_intervals = False
    for runs in list(groups.values())[:_MOST]:
        done = [each for each in runs if each.status == "finished"]
        found = [[each.value(name, stage) for each in done] for name, stage, _ in values]
        known = [[value for value in each if value is not None] for each in found]
        cells = [plus_minus(mean_of(each), 2, 100) if each else "–" for each in known]
        have_intervals = have_intervals or any("±" in cell for cell in cells)
        time = said_time(sum(each.wall_seconds for each in done) / len(done)) if done else "–"
        settings = [str(runs[0].settings.get(name)) for name in axes]
        count = str(len(done)) if len(done) == len(runs) else f"{len(done)} of {len(runs)}"
        table.add_row(*settings, count, *cells, time)
    more = [f"and {len(groups) - _MOST} more rows"] if len(groups) > _MOST else []
    meant = ["±: 95% interval of the mean over seeds"] if have_intervals else []
    table.caption = "; ".join([*more, *meant]) or None
    return table
