"""Does a run give the same numbers again, from its settings alone?"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from calibrant._math.machine import environment
from calibrant_lab.sweep.engines import Pool
from calibrant_lab.sweep.kept_runs import DEVICE, MADE, KeptRun, runs_in, shortened
from calibrant_lab.sweep.store.store import Store
from calibrant_lab.sweep.sweep import sweep
from calibrant_lab.sweep.tasks.task import make_item
from papers import studies
from papers.analysis import Frames, Tables, content, pm

ONE_IN = 50
TIMES = {"cpu_seconds", "wall_seconds", "seconds"}
"""What no repetition gives again."""
BESIDE_SEED = ("seed", "hardware.", "evaluation.")
"""How settings begin that seeds of one setting may not have alike."""
DEVICES = {"error": "stages.before.error", "ECE": "stages.before.ece", "T": "parameters.temperature"}
"""What is compared between a run on a GPU and the same on a CPU."""


def measure(folder: Path, *, names: str = "") -> dict[str, Any]:
    """The rows of studies done again take the place of those from the same processor; none named is all."""
    rows = content("repeats")["rows"]
    known = [name for name in studies.names() if studies.has_grid(name)]
    here = environment().get("processor")
    for name in names.split(",") if names else known:
        new = _again(name, Store(folder))
        old = [row for row in rows if row["study"] != name or row["here"].get("processor", here) != here]
        rows = old + new
    return {"rows": rows}


def sample_of(runs: int) -> list[int]:
    """Which of so many runs are done again: evenly spread, one at least.

    Example:
        >>> sample_of(164), sample_of(3), sample_of(0)
        ([20, 61, 102, 143], [1], [])
    """
    chosen = math.ceil(runs / ONE_IN)
    return [(2 * k + 1) * runs // (2 * chosen) for k in range(chosen)]


def _again(name: str, store: Store) -> list[dict[str, Any]]:
    module, results = studies.study(name), content(name)
    task, runs = studies.grid_of(name).task, runs_in(results)
    items = {}
    for place in sample_of(len(runs)):
        on_cpu = {"hardware.accelerator": "cpu"} if DEVICE in runs[place].made else {}
        settings = task.complete({**runs[place].settings, **on_cpu})
        items[place] = make_item(task, settings, {}, store.fingerprints())
    sweep([*items.values()], store, Pool())
    here, found = environment(), []
    for place, item in items.items():
        run, result = runs[place], store.result(item.run)
        kept = studies.kept(name, result) if result.status == "finished" else None
        row = {
            "study": name,
            "settings": results["runs"][place]["settings"],
            "of": len(runs),
            "made": {each: run.made[each] for each in (*MADE, DEVICE) if each in run.made},
            "here": {each: here[each] for each in MADE},
            "cpu_seconds": round(result.cpu_seconds, 1),
        }
        digits = getattr(module, "DIGITS", studies.DIGITS)
        found.append({**row, **compared(run, None if kept is None else shortened(kept, digits), runs)})
    return found


def compared(run: KeptRun, again: Mapping[str, Any] | None, runs: Sequence[KeptRun]) -> dict[str, Any]:
    """How many numbers there are, how many are unequal, and the error beside that of other seeds.

    A number that only the repetition has is not compared; one that it lacks is unequal.

    Example:
        >>> run = KeptRun(settings={"seed": 1}, found={"error": 0.1, "norms": [1.0, 2.0], "seconds": 3.0})
        >>> found = compared(run, {"error": 0.12, "norms": [1.0, 2.0], "seconds": 9.0}, [run])
        >>> found["numbers"], found["unequal"], found["error"]["again"]
        (3, 1, 0.12)
    """
    if again is None:
        return {"numbers": 0, "unequal": None, "error": None}
    first, second = dict(numbers(run.found)), dict(numbers(again))
    unequal = sum(second.get(name) != value for name, value in first.items())
    result: dict[str, Any] = {"numbers": len(first), "unequal": unequal, "error": None}
    name = next((each for each in first if each.rpartition(".")[2] == "error"), None)
    if name is not None:
        alike = [each for each in runs if _setting(each) == _setting(run)]
        seeds = [dict(numbers(each.found)).get(name, math.nan) for each in alike]
        result["error"] = {
            "found": first[name],
            "again": second.get(name),
            "deviation": float(f"{statistics.stdev(seeds):.3g}") if len(seeds) > 1 else None,
            "seeds": len(seeds),
        }
    if DEVICE in run.made:
        both = [each for each in DEVICES.values() if each in first and each in second]
        result["devices"] = {each: [first[each], second[each]] for each in both}
    return result


def _setting(run: KeptRun) -> dict[str, Any]:
    return {name: value for name, value in run.settings.items() if not name.startswith(BESIDE_SEED)}


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a run but times, with where they stand."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key not in TIMES:
                yield from numbers(each, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from numbers(each, f"{name}.{index}".lstrip("."))
    elif isinstance(value, int | float):
        yield name, float(value)


def frames(results: Mapping[str, Any]) -> Frames:
    """``runs`` with whether they are equal, and ``devices``: what differs between a GPU and a CPU."""
    runs, devices = [], []
    for row in results["rows"]:
        error = row["error"] or {}
        gap, spread = error.get("again", math.nan) - error.get("found", math.nan), error.get("deviation")
        runs.append(
            {
                **{name: row[name] for name in ("study", "of", "cpu_seconds")},
                "equal": row["unequal"] == 0,
                "gap": gap,
                "deviations": abs(gap) / spread if spread else math.nan,
            }
        )
        for what, name in DEVICES.items():
            if name in row.get("devices", {}):
                found, again = row["devices"][name]
                devices.append({"what": what, "gap": again - found})
    return {"runs": pd.DataFrame(runs), "devices": pd.DataFrame(devices)}


def tables(of: Frames) -> Tables:
    runs = of["runs"]
    differs = ~runs.groupby("study").equal.transform("all")
    studied = runs.assign(study=runs.study.where(differs, "all others"))
    gaps = {"error": 100, "ECE": 100, "T": 1}
    less = {
        what: pm(each.gap, digits=2 if gaps[what] > 1 else 3, scale=gaps[what], signed=True)
        for what, each in of["devices"].groupby("what")
    }
    short = studied.sort_values("equal").groupby("study", sort=False).apply(_row, include_groups=False)
    return {"short": short, "devices": pd.DataFrame({"CPU less GPU": less})}


def _row(of: pd.DataFrame) -> pd.Series:
    far = of.loc[of.gap.abs().idxmax()] if of.gap.abs().max() > 0 else None
    return pd.Series(
        {
            "done again": str(len(of)),
            "equal": str(of.equal.sum()),
            "error, largest gap in points": "–" if far is None else f"{100 * far.gap:+.2f}",
            "in standard deviations over seeds": "–" if far is None else f"{abs(far.deviations):.1f}",
            "CPU seconds a run": f"{of.cpu_seconds.mean():.1f}",
        }
    )
