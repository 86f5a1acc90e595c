"""What the page on CIFAR-10 says of the lengths of gradients, of the runs that recorded them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import fmean

from calibrant.experiments.arms import ArmRuns, Run
from calibrant.experiments.pages import listed, table
from calibrant.experiments.paired import in_words
from calibrant.experiments.studies.cifar10.settings import DROPS, FACTOR, RATES, STEPS, TITLES
from calibrant.experiments.studies.sum_or_mean.settings import LONG, STEP, SUM

_OFTEN = 0.1
"""A larger share of gradients clipped with the mean is named."""


def lengths_by_way(ways: Mapping[str, Mapping[str, ArmRuns]]) -> str:
    """Length of gradients times the rate before it drops, where runs recorded it."""
    return _recorded_by_way(
        ways, "gradient × rate before clipping", lambda arm, way: f"{_levels(arm, RATES[way])[0]:.3f}"
    )


def clipped_by_way(ways: Mapping[str, Mapping[str, ArmRuns]]) -> str:
    """The share of gradients that were clipped before the rate drops, and after it has dropped twice."""

    def shares(arm: ArmRuns, _way: str) -> str:
        first, _, last = _at_levels(arm, "clipped")
        return f"{100 * first:.1f}, {100 * last:.1f}"

    return _recorded_by_way(ways, "clipped %: first, last epochs", shares)


def _recorded_by_way(
    ways: Mapping[str, Mapping[str, ArmRuns]], title: str, cell: Callable[[ArmRuns, str], str]
) -> str:
    """What runs recorded of their gradients, a column for each way; a dash where none did."""
    shown = [way for way in STEPS if ways[way]]
    rows = [
        [name, *(_cell(ways[way].get(key), way, cell) for way in shown)]
        for key, name in TITLES.items()
        if any(_recorded_of(ways[way].get(key)) for way in shown)
    ]
    return table([f"{title}, after", *(STEPS[way].title for way in shown)], rows) if rows else ""


def _cell(arm: ArmRuns | None, way: str, cell: Callable[[ArmRuns, str], str]) -> str:
    if arm is None:
        return ""
    recorded = len(_recorded_of(arm))
    if not recorded:
        return "–"
    return cell(arm, way) + (f" (n = {recorded})" if recorded < len(arm.runs) else "")


def often_clipped(ways: Mapping[str, Mapping[str, ArmRuns]]) -> str:
    """After which losses many gradients of the mean were clipped in the last epochs; empty without any."""
    return listed(
        f"{in_words(arm.title)} (*{STEPS[way].title}*, {100 * share:.0f} %)"
        for way, arms in ways.items()
        for arm in arms.values()
        if way != SUM and _recorded_of(arm) and (share := _at_levels(arm, "clipped")[-1]) > _OFTEN
    )


def products(ways: Mapping[str, Mapping[str, ArmRuns]]) -> str:
    """Length of gradients times the rate before it drops, of the pair that was to match the sum."""
    focal, plain = ways[LONG].get("focal-3"), ways[STEP].get("cross-entropy")
    if not _recorded_of(focal) or not _recorded_of(plain) or focal is None or plain is None:
        return ""
    first, second = _levels(focal, RATES[LONG])[0], _levels(plain, RATES[STEP])[0]
    return (
        f"{first:.3f} after focal loss (*{STEPS[LONG].title}*) and {second:.3f} after cross-entropy "
        f"(*{STEPS[STEP].title}*)"
    )


def products_of(arm: ArmRuns, way: str) -> str:
    """Mean length of gradients times the rate, at each of its levels; a dash where no run recorded it."""
    return _cell(arm, way, lambda arm, way: ", ".join(f"{each:.2g}" for each in _levels(arm, RATES[way])))


def _recorded_of(arm: ArmRuns | None) -> list[Run]:
    """The runs that recorded the lengths of their gradients."""
    return [] if arm is None else [run for run in arm.runs.values() if "gradients" in run]


def _levels(arm: ArmRuns, rate: float) -> list[float]:
    """Length times rate at each level of the rate, mean over the runs that recorded it."""
    return [rate * FACTOR**level * each for level, each in enumerate(_at_levels(arm, "gradients"))]


def _at_levels(arm: ArmRuns, name: str) -> list[float]:
    """What runs recorded by epoch, as means over the epochs at each level of the rate and over the runs."""
    recorded = [run[name] for run in _recorded_of(arm)]
    starts = [1, *(drop + 1 for drop in DROPS), len(recorded[0]) + 1]
    return [
        fmean(values[str(epoch)] for values in recorded for epoch in range(first, after))
        for first, after in pairwise(starts)
    ]
