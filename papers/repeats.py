"""A sample of the runs in results files, done again from their settings: do they give the same numbers?"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant._math.environment import environment
from calibrant._math.means import mean_of, plus_minus
from calibrant_lab.sweep.engines.pool import Pool
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.item import Item, make_item
from calibrant_lab.sweep.kept_runs import DEVICE, MADE, KeptRun, runs_in, shortened
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.store.store import Store
from calibrant_lab.sweep.sweep import sweep
from papers.pages import listed, table
from papers.study import Page, Study
from papers.study_runs import grid_of

ONE_IN = 50
_TIMES = frozenset({"cpu_seconds", "wall_seconds", "seconds"})
"""What no repetition gives again."""
_WHERE = ("hardware.", "evaluation.")
"""How settings begin that decide nothing of the trained network."""


def sample_of(runs: int) -> list[int]:
    """Which of so many runs are done again: evenly spread, one at least.

    Example:
        >>> sample_of(164), sample_of(3), sample_of(0)
        ([20, 61, 102, 143], [1], [])
    """
    chosen = math.ceil(runs / ONE_IN)
    return [(2 * k + 1) * runs // (2 * chosen) for k in range(chosen)]


def repeated_runs(study: Study, page: Page, folder: Path, store: Path) -> list[dict[str, Any]]:
    """A sample of a page's runs that were made on CPUs, done again, each with what differs.

    Of the runs that were made on a GPU those are compared that the store has finished on a CPU.

    Args:
        study: The study, which has a grid.
        page: Its page.
        folder: Where its results file lies.
        store: Where the runs are done.
    """
    if study.grid is None:
        raise ValueError(f"{study.name} has no grid.")
    content = page.content(folder)
    runs, grid, kept = runs_in(content), grid_of(study.grid), Store(store)
    done = {
        result.run
        for result in kept.results(task=grid.task.name)
        if result.status == "finished" and result.environment.get(DEVICE, "cpu") == "cpu"
    }
    on_gpu = [index for index, run in enumerate(runs) if DEVICE in run.made and done]
    items = {index: item for index in on_gpu if (item := _item(grid, runs[index], kept)).run in done}
    on_cpu = [index for index, run in enumerate(runs) if DEVICE not in run.made]
    sampled = [on_cpu[place] for place in sample_of(len(on_cpu))]
    items |= {index: _item(grid, runs[index], kept) for index in sampled}
    sweep([*items.values()], kept, Pool())
    return [
        {
            "page": page.name,
            "settings": content["runs"][index]["settings"],
            "of": len(runs),
            **_compared(page, runs[index], kept.result(items[index].run), runs),
        }
        for index in sorted(items)
    ]


def _item(grid: Grid, run: KeptRun, place: Store) -> Item:
    """The run to be done, on a CPU also where it was made on a GPU."""
    accelerator = {"hardware.accelerator": "cpu"} if DEVICE in run.made else {}
    settings = grid.task.complete({**run.settings, **accelerator})
    return make_item(grid.task, settings, {}, place.fingerprints())


def takes_place_of(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether it is the same run done again on the same processor, by versions that may be newer.

    The settings of a row are those by which a run differed from the others of its page at the time.

    Example:
        >>> old = {"page": "sst", "settings": {"seed": 1}, "here": {"processor": "A 1"}}
        >>> new = {**old, "settings": {"seed": 1, "hardware.accelerator": "cpu"}}
        >>> takes_place_of(new, old), takes_place_of(new, {**old, "here": {"processor": "B 1"}})
        (True, False)
    """
    place = row["here"].get("processor")
    return _same_run(row, other) and other["here"].get("processor", place) == place


def _same_run(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    first, second = row["settings"], other["settings"]
    same = all(first[name] == second[name] for name in first.keys() & second.keys())
    return same and row["page"] == other["page"]


def _compared(page: Page, run: KeptRun, result: RunResult, runs: Sequence[KeptRun]) -> dict[str, Any]:
    kept = page.kept(result) if result.status == "finished" else None
    again = None if kept is None else shortened(kept, page.digits)
    here = environment()
    return {
        "made": {name: run.made[name] for name in (*MADE, DEVICE) if name in run.made},
        "here": {name: here[name] for name in MADE},
        "cpu_seconds": round(result.cpu_seconds, 1),
        **(
            {"numbers": 0, "unequal": None, "largest": None, "error": None}
            if again is None
            else {
                **apart(run.found, again),
                "error": errors(run, again, runs),
                **({"devices": between_devices(run.found, again)} if DEVICE in run.made else {}),
            }
        ),
    }


_BETWEEN: Mapping[str, tuple[str, str, float]] = {
    "stages.before.error": ("the error", " points", 100),
    "stages.before.ece": ("the ECE", " points", 100),
    "parameters.temperature": ("the likeliest temperature", "", 1),
}
"""What is compared between a run on a GPU and the same on a CPU: its name, its unit, and times what."""


def between_devices(found: Mapping[str, Any], again: Mapping[str, Any]) -> dict[str, list[float]]:
    """Error, ECE and temperature of a run on a GPU and of the same on a CPU, as far as they are kept.

    Example:
        >>> between_devices({"parameters": {"temperature": 1.5}}, {"parameters": {"temperature": 1.4}})
        {'parameters.temperature': [1.5, 1.4]}
    """
    first, second = dict(_numbers(found)), dict(_numbers(again))
    return {name: [first[name], second[name]] for name in _BETWEEN if name in first and name in second}


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


def errors(run: KeptRun, again: Mapping[str, Any], runs: Sequence[KeptRun]) -> dict[str, Any] | None:
    """A run's error on test samples, that of its repetition, and how far seeds with its settings differ.

    None where no error is kept; the standard deviation is None with fewer than two seeds.

    Example:
        >>> runs = [KeptRun(settings={"seed": seed}, found={"error": seed / 100}) for seed in (1, 2, 3)]
        >>> errors(runs[0], {"error": 0.02}, runs)
        {'found': 0.01, 'again': 0.02, 'deviation': 0.01, 'seeds': 3}
    """
    own = dict(_numbers(run.found))
    name = next((each for each in own if each.rpartition(".")[2] == "error"), None)
    if name is None:
        return None
    seeds = [
        dict(_numbers(each.found)).get(name, math.nan)
        for each in runs
        if _without_seed(each.settings) == _without_seed(run.settings)
    ]
    return {
        "found": own[name],
        "again": dict(_numbers(again)).get(name),
        "deviation": float(f"{statistics.stdev(seeds):.3g}") if len(seeds) > 1 else None,
        "seeds": len(seeds),
    }


def _without_seed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What two seeds of one setting have alike, wherever they were run."""
    return {name: value for name, value in settings.items() if name != "seed" and not name.startswith(_WHERE)}


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
    "Of the runs on CPUs that a results file had at the time one in {one_in}, at least one, was done again "
    "from its settings alone; all numbers that the file keeps of a run were compared, to its last digit. Of "
    "the runs on a GPU some were done again on a CPU. "
    "Written by `python docs/results/repeat_runs.py PAGE ...`; run by run, with their settings, in "
    "`repeats.json`. Studies that read prediction files have no runs and are not here."
)
_LIKE_A_SEED = (
    " Take a run that does not give its numbers again as one of another seed: the error of both stands "
    "below, beside the standard deviation of the error over the seeds of the page."
)
_COST = (
    "The time is that of the runs done again, on one core, and for all runs that the page had that many "
    "times as much; where a page says what its own runs took, that is the better number."
)


def page_of_repeats(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page of runs done again, in Markdown."""
    heads = (
        "page",
        "runs that there were",
        "done again",
        "equal",
        "made with",
        "done again with",
        "largest gap of an ECE: found, again",
        "error %, largest gap: found, again (standard deviation over seeds)",
        "CPU s a run",
        "CPU h",
    )
    pages = dict.fromkeys(row["page"] for row in rows)
    lines = [_row([row for row in rows if row["page"] == page]) for page in pages]
    about = _ABOUT.format(one_in=ONE_IN)
    said = [about, _found(rows), _by_processor(rows), _devices(rows), table(heads, lines), _COST]
    return "\n\n".join(["# Runs done again", *filter(None, said)]) + "\n"


def _found(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many runs gave every number again, which did not finish, and what is known of the others."""
    equal = [row for row in rows if row["unequal"] == 0]
    failed = [row for row in rows if row["unequal"] is None]
    others = [row for row in rows if row["unequal"]]
    known = [row for row in others if all(name in row["made"] for name in MADE)]
    same = sum(
        all(row["made"].get(name) == row["here"].get(name) for name in (*MADE, DEVICE)) for row in known
    )
    said = [f"{len(equal)} of {len(rows)} repetitions gave every number again."]
    if failed:
        named = "; ".join(f"{row['page']}, {_settings(row)}" for row in failed)
        said.append(f"{len(failed)} gave no numbers when done again: {named}.")
    if len(known) < len(others):
        said.append(
            f"{len(others) - len(known)} gave others and were made by versions or on a processor that were "
            "not recorded in full, so that the reason cannot be told: models of processors round "
            "otherwise, even with the same vector instructions, and training magnifies that."
        )
    if same < len(known):
        said.append(f"{len(known) - same} gave others and were made by other versions or processors.")
    if same:
        said.append(f"{same} gave others with the same versions and processor, which is a fault.")
    elsewhere = sum(any(_same_run(row, each) for each in equal) for row in others)
    if elsewhere:
        said.append(f"{elsewhere} of these runs gave every number on another model of processor.")
    return " ".join(said) + (_LIKE_A_SEED if others else "")


def _by_processor(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many repetitions gave every number again on each model of processor that is known."""
    where = Counter(row["here"]["processor"] for row in rows if row["here"].get("processor"))
    equal = Counter(row["here"].get("processor") for row in rows if row["unequal"] == 0)
    said = listed(f"{equal[each]} of {number} on {each}" for each, number in where.items())
    return (
        f"By the processor on which runs were done again, as far as it was recorded: {said}." if said else ""
    )


def _devices(rows: Sequence[Mapping[str, Any]]) -> str:
    """How a CPU differs from a GPU, on average over the runs that were made on both; empty without any."""
    pairs = [row["devices"] for row in rows if row.get("devices")]
    said: list[str] = []
    for name, (what, unit, scale) in _BETWEEN.items():
        gaps = [again - found for pair in pairs if name in pair for found, again in [pair[name]]]
        if len(gaps) > 1:
            shown = plus_minus(mean_of(gaps), 3 if scale == 1 else 2, scale, signed=True)
            said.append(f"{what} by {shown}{unit} (n = {len(gaps)})")
    if not said:
        return ""
    return (
        "Runs that were made on a GPU were done again on a CPU with the same seeds. There they differ on "
        f"average in {listed(said)}: 95 % intervals, Student's t over the runs."
    )


def _settings(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in row["settings"].items())


def _row(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    page, runs = rows[0]["page"], max(row["of"] for row in rows)
    each = sum(row["cpu_seconds"] for row in rows) / len(rows)
    return [
        f"[{page}]({page}.md)",
        str(runs),
        str(len(rows)),
        str(sum(row["unequal"] == 0 for row in rows)),
        _by(row["made"] for row in rows),
        _by(row["here"] for row in rows),
        _largest_gap(rows),
        _error(rows),
        f"{each:.1f}",
        f"{runs * each / 3600:.2f}",
    ]


def _by(made: Iterable[Mapping[str, Any]]) -> str:
    said = (" ".join(str(each[name]) for name in (*MADE, DEVICE) if name in each) for each in made)
    return "; ".join(dict.fromkeys(each or "not recorded" for each in said))


def _largest_gap(rows: Sequence[Mapping[str, Any]]) -> str:
    worst = _farthest(row["largest"] for row in rows)
    return "–" if worst is None else f"{worst['found']:.4f}, {worst['again']:.4f} ({worst['name']})"


def _error(rows: Sequence[Mapping[str, Any]]) -> str:
    """The errors of the unequal run whose repetition is farthest from it."""
    worst = _farthest(row["error"] for row in rows if row["unequal"])
    if worst is None:
        return "–"
    deviation, seeds = worst["deviation"], worst["seeds"]
    spread = "one seed" if deviation is None else f"{100 * deviation:.2f}, {seeds} seeds"
    return f"{100 * worst['found']:.2f}, {100 * worst['again']:.2f} ({spread})"


def _farthest(pairs: Iterable[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """What was found and found again, of those known the pair that is farthest apart."""
    known = [each for each in pairs if each and each["again"] is not None]
    return max(known, key=lambda each: abs(each["found"] - each["again"]), default=None)
