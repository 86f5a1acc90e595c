"""How long runs will take, from those that are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from calibrant_lab.sweep.item import Item
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.tasks.fingerprints import canonical
from calibrant_lab.sweep.tasks.task import Settings, Task


class Estimates:
    """Mean times of runs that differ by the seed alone; else of runs of the same size; else of all."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._times: dict[str, list[float]] = defaultdict(list)

    def learn(self, results: Iterable[RunResult]) -> None:
        for each in results:
            if each.task == self._task.name and each.status == "finished":
                self.note(each.settings, each.wall_seconds)

    def note(self, settings: Settings, seconds: float) -> None:
        for key in self._keys(settings):
            self._times[key].append(seconds)

    def seconds(self, settings: Settings) -> float | None:
        for key in self._keys(settings):
            if key in self._times:
                times = self._times[key]
                return sum(times) / len(times)
        return None

    def left(self, items: Sequence[Item], jobs: int) -> float | None:
        """The time of all these runs, so many at once; None where nothing is known of one."""
        known = [self.seconds(item.settings) for item in items]
        each = [seconds for seconds in known if seconds is not None]
        if len(each) < len(known) or not each:
            return None
        return max(sum(each) / min(jobs, len(each)), *each)

    def _keys(self, settings: Settings) -> tuple[str, str, str]:
        """What similar runs are looked up by, from the closest to all."""
        alike = {name: value for name, value in settings.items() if name != "seed"}
        sized = {name: settings.get(name) for name in self._task.costly}
        return canonical(["alike", alike]), canonical(["sized", sized]), "all"


def said_time(seconds: float) -> str:
    """A time for people.

    Example:
        >>> said_time(42.3), said_time(600), said_time(10_000), said_time(200_000)
        ('42 s', '10 min', '2.8 h', '2.3 days')
    """
    for limit, unit, name in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.{int(name == 'h')}f} {name}"
    return f"{seconds / 86_400:.1f} days"
