"""What the page on CIFAR-10 says of the lengths of gradients, of the runs that recorded them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import fmean

from papers.arms import ArmRuns, Run
from papers.cifar10.settings import DROPS, FACTOR, RATES, STEPS, TITLES
from papers.pages import listed, table
from papers.paired import in_words
from papers.sum_or_mean.settings import LONG, STEP, SUM

_OFTEN = 0.1
"""A larger share of gradients clipped with the mean is named."""
_NOT_RECORDED = "–"


def by_way(ways: Mapping[str, Mapping[str, ArmRuns]], head: str, cell: Callable[[ArmRuns, str], str]) -> str:
    """Something of every loss, a column for each way; losses without any are left out."""
    shown = [way for way in STEPS if ways[way]]
    rows = [
        [name, *(cell(ways[way][key], way) if key in ways[way] else "" for way in shown)]
        for key, name in TITLES.items()
    ]
    told = [row for row in rows if {*row[1:]} - {"", _NOT_RECORDED}]
    return table([head, *(STEPS[way].title for way in shown)], told) if told else ""


def lengths_by_way(ways: Mapping[str, Mapping[str, ArmRuns]]) -> str:
    """Length of gradients times the rate before it drops, where runs recorded it."""
    return by_way(
        ways,
        "gradient × rate before clipping, after",
        lambda arm, way: _recorded(arm, lambda: f"{_levels(arm, way)[0]:.3f}"),
    )


def clipped_by_way(ways: Mapping[str, Mapping[str, ArmRuns]]) -> str:
    """The share of gradients that were clipped before the rate drops, and after it has dropped twice."""

    def shares(arm: ArmRuns) -> str:
        first, _, last = _at_levels(arm, "clipped")
        return f"{100 * first:.1f}, {100 * last:.1f}"

    return by_way(
        ways,
        "clipped %: first, last epochs, after",
        lambda arm, _way: _recorded(arm, lambda: shares(arm)),
    )


def products_of(arm: ArmRuns, way: str) -> str:
    """Mean length of gradients times the rate, at each of its levels; a dash where no run recorded it."""
    return _recorded(arm, lambda: ", ".join(f"{each:.2g}" for each in _levels(arm, way)))


def _recorded(arm: ArmRuns, said: Callable[[], str]) -> str:
    """What is said of the runs that recorded their gradients, and how many these are, if not all."""
    recorded = len(_recorded_of(arm))
    if not recorded:
        return _NOT_RECORDED
    return said() + (f" (n = {recorded})" if recorded < len(arm.runs) else "")


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
    pair = [
        (ways[way].get(key), way, name)
        for way, key, name in ((LONG, "focal-3", "focal loss"), (STEP, "cross-entropy", "cross-entropy"))
    ]
    said = [
        f"{_levels(arm, way)[0]:.3f} after {name} (*{STEPS[way].title}*)"
        for arm, way, name in pair
        if arm and _recorded_of(arm)
    ]
    return " and ".join(said) if len(said) == len(pair) else ""


def _recorded_of(arm: ArmRuns) -> list[Run]:
    """The runs that recorded the lengths of their gradients."""
    return [run for run in arm.runs.values() if "gradients" in run]


def _levels(arm: ArmRuns, way: str) -> list[float]:
    """Length times rate at each level of the rate, mean over the runs that recorded it."""
    return [RATES[way] * FACTOR**level * each for level, each in enumerate(_at_levels(arm, "gradients"))]


def _at_levels(arm: ArmRuns, name: str) -> list[float]:
    """What runs recorded by epoch, as means over the epochs at each level of the rate and over the runs."""
    recorded = [run[name] for run in _recorded_of(arm)]
    starts = [1, *(drop + 1 for drop in DROPS), len(recorded[0]) + 1]
    return [
        fmean(values[str(epoch)] for values in recorded for epoch in range(first, after))
        for first, after in pairwise(starts)
    ]
