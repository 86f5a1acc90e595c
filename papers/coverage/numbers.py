"""What the test sets show, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from calibrant._math.means import rounded
from calibrant.evaluation.thresholds import beyond_chance
from papers.coverage.settings import ERRORS, Setting
from papers.records import Record

Lists = Mapping[str, Sequence[float]]


def numbers_of(records: Sequence[Record], setting: Setting) -> dict[str, Any]:
    """For each cell, the sets and the shares of them that were covered or raised an alarm."""
    cells: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        cells.setdefault(place_of(record["cell"]), []).append(record)
    found = [sorted(batches, key=lambda batch: batch["seed"]) for batches in cells.values()]
    level = setting.method.level
    alike = min((len(_with(batches, "alarms")) for batches in found if _with(batches, "alarms")), default=0)
    last = next((record["code"] for record in reversed(records) if "again" in record), None)
    return {
        "setting": asdict(setting.method),
        "batches": max(len(batches) for batches in found),
        "cells": [
            _cell(_with(batches, "errors"), level, _with(batches, "alarms"), alike)
            for batches in found
            if _with(batches, "errors")
        ],
        "changes": [_changes(batches) for batches in found if "changes" in batches[0]],
        "again_by": last,
        "again": compared(found, last),
    }


def _with(batches: Sequence[Record], what: str) -> list[Record]:
    return [batch for batch in batches if what in batch]


def _cell(batches: Sequence[Record], level: float, further: Sequence[Record], alike: int) -> dict[str, Any]:
    """A cell; ``alike`` batches of further sets are what each cell whose truth is stated has."""
    cell, truth = batches[0]["cell"], batches[0]["truth"]
    fails = {
        name: [beyond_chance(p, level) for batch in batches for p in batch["parts"][name]]
        for name in batches[0]["parts"]
    }
    said = [word for batch in batches for word in batch["words"]]
    return {
        **{name: cell[name] for name in ("classes", "samples", "scale", "file", "stated")},
        "sets": sum(len(next(iter(batch["parts"].values()))) for batch in batches),
        "errors": {key: _error(batches, key, truth[key], level) for key in _keys(batches, "errors")},
        "verdict": {
            "alarms": _share([any(each) for each in zip(*fails.values(), strict=True)]),
            "parts": {name: _share(each) for name, each in fails.items()},
            "words": {word: _share([each == word for each in said]) for word in sorted(set(said))},
        },
        **({"further": _alarms(further)} if further else {}),
        **({"added": _alarms(further[alike:])} if further[alike:] else {}),
    }


def _alarms(batches: Sequence[Record]) -> dict[str, Any]:
    """Sets judged without intervals: how many of them raised an alarm."""
    alarms = [batch["alarms"] for batch in batches]
    keys = dict.fromkeys(key for each in alarms for key in each["real"])
    return {
        "sets": sum(each["sets"] for each in alarms),
        "real": {key: sum(each["real"][key] for each in alarms) for key in keys},
        "verdict": sum(each["verdict"] for each in alarms),
    }


def _keys(batches: Sequence[Record], where: str) -> Iterator[str]:
    known = {key for batch in batches for key in batch[where]}
    return (key for key in ERRORS if key in known)


def _error(batches: Sequence[Record], key: str, truth: float, level: float) -> dict[str, Any]:
    lists = _lists(batches, "errors", key)
    real = [beyond_chance(p, level) for p in lists["p"]]
    off_zero = [low > 0 for low in lists["low"]]
    return {
        **_coverage(lists, truth),
        "without_chance": _mean(lists["without_chance"]),
        "real": _share(real),
        "disagree": _share([one != other for one, other in zip(real, off_zero, strict=True)]),
        "centred": _centred(batches, key, truth),
    }


def _coverage(lists: Lists, truth: float) -> dict[str, Any]:
    """Which share of intervals covers, lies above and lies below the truth; ends may be rounded.

    The largest gap is that of the bins that hold samples, so that its truth is another for each set.
    """
    ends = list(zip(lists["low"], lists["high"], strict=True))
    true = lists.get("truth", [truth] * len(ends))
    above = [low > at + 1e-9 for (low, _), at in zip(ends, true, strict=True)]
    below = [high < at - 1e-9 for (_, high), at in zip(ends, true, strict=True)]
    return {
        "sets": len(ends),
        "covered": _share([not (one or other) for one, other in zip(above, below, strict=True)]),
        "above": _share(above),
        "below": _share(below),
        "width": _mean([high - low for low, high in ends]),
        "value": _mean(lists["value"]),
        "truth": _mean(true) if "truth" in lists else rounded(truth),
    }


def _centred(batches: Sequence[Record], key: str, truth: float) -> dict[str, Any] | None:
    """The centred bootstrap where it was made, and the width of the other interval on the same sets."""
    both = [batch for batch in batches if key in batch["centred"]]
    if not both:
        return None
    lists = _lists(both, "centred", key)
    ends = list(zip(lists["low"], lists["high"], strict=True))
    mine: dict[str, list[float]] = {}
    for batch in both:
        for name, values in batch["errors"][key].items():
            mine.setdefault(name, []).extend(values[: len(batch["centred"][key]["low"])])
    true = mine.get("truth", [truth] * len(ends))
    covered = [low - 1e-9 <= at <= high + 1e-9 for (low, high), at in zip(ends, true, strict=True)]
    return {
        "sets": len(ends),
        "covered": _share(covered),
        "width": _mean([high - low for low, high in ends]),
        "inverted_width": _mean([high - low for low, high in zip(mine["low"], mine["high"], strict=True)]),
    }


def _changes(batches: Sequence[Record]) -> dict[str, Any]:
    cell, truth = batches[0]["cell"], batches[0]["truth"]
    found: dict[str, Any] = {}
    for key in _keys(batches, "changes"):
        lists = _lists(batches, "changes", key)
        clear = [low > 0 or high < 0 for low, high in zip(lists["low"], lists["high"], strict=True)]
        found[key] = {**_coverage(lists, truth[key]), "clear": _share(clear)}
    return {
        **{name: cell[name] for name in ("classes", "samples")},
        "before": cell["scale"],
        "after": cell["after"],
        "model": cell.get("model"),
        "errors": found,
    }


def _lists(batches: Sequence[Record], where: str, key: str) -> dict[str, list[float]]:
    """The lists of all batches, one after the other."""
    joined: dict[str, list[float]] = {}
    for batch in batches:
        for name, values in batch[where].get(key, {}).items():
            joined.setdefault(name, []).extend(values)
    return joined


def _share(which: Sequence[bool]) -> float:
    return round(sum(which) / len(which), 8)


def _mean(values: Sequence[float]) -> float | None:
    return rounded(math.fsum(values) / len(values), 6) if values else None


def place_of(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a cell is known by in records; a name that later ones have stands for nothing in earlier ones."""
    return tuple(item for item in cell.items() if item[1] is not None)


def compared(cells: Sequence[Sequence[Record]], code: str | None) -> dict[str, Mapping[str, float]]:
    """Of each error the sets that code of a fingerprint judged once more, and what became of their intervals.

    ``moved`` counts those that hold the true error where they did not, or the other way round; ``width`` is
    their mean width over the one before.
    """
    found: dict[str, list[tuple[bool, bool, float]]] = {}
    for batches in cells:
        last = {batch["seed"]: batch for batch in batches if "again" in batch and batch["code"] == code}
        before = {batch["seed"]: batch for batch in batches if "errors" in batch}
        for seed, batch in last.items():
            truth = before[seed]["truth"]
            for key, now in batch["again"].items():
                then = before[seed]["errors"][key]
                ends = zip(then["low"], then["high"], now["low"], now["high"], strict=True)
                found.setdefault(key, []).extend(
                    (
                        low - 1e-9 <= truth[key] <= high + 1e-9,
                        new_low - 1e-9 <= truth[key] <= new_high + 1e-9,
                        (new_high - new_low) / (high - low),
                    )
                    for low, high, new_low, new_high in ends
                )
    return {
        key: {
            "sets": len(each),
            "before": round(sum(one for one, _, _ in each) / len(each), 8),
            "covered": round(sum(other for _, other, _ in each) / len(each), 8),
            "moved": sum(one != other for one, other, _ in each),
            "width": round(sum(ratio for _, _, ratio in each) / len(each), 6),
        }
        for key, each in sorted(found.items(), key=lambda pair: ERRORS.index(pair[0]))
    }
