"""What the runs of the study of sum and mean show, by way and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant_lab.sweep.matching import matches
from papers.arms import ArmRuns, Run, arms_where, runs_by_arm
from papers.claims import exchanged
from papers.sum_or_mean.settings import LOSSES, PARTS, TITLES, WAYS

Numbers = Mapping[str, Any]
_FOUND = ("train_accuracy", "stages", "parameters", "norms")


def numbers_of(runs: Sequence[Run], also: Mapping[str, Any]) -> dict[str, Any]:
    """The runs by way and loss, balanced and long-tailed, and what they took."""
    return {
        **also,
        "cpu_seconds": sum(run["cpu_seconds"] for run in runs),
        **{part: _ways(runs, imbalance) for part, imbalance in PARTS.items()},
    }


def _ways(runs: Sequence[Run], imbalance: float) -> list[dict[str, Any]]:
    found = {
        way.key: runs_by_arm(
            [run for run in runs if matches(run, way.where)],
            way.losses(imbalance).wanted,
            _FOUND,
        )
        for way in WAYS
    }
    return [{"way": way, "arms": arms} for way, arms in found.items() if arms]


def tail_of(numbers: Numbers) -> Numbers:
    """The ways on the long tail, in the place of those on balanced images."""
    return {"ways": numbers.get("tail", ())}


def arms_of(numbers: Numbers, way: str) -> dict[str, ArmRuns]:
    """The losses of a way, by key."""
    return arms_where(numbers["ways"], "way", way, {arm.key: arm.title for arm in LOSSES.arms})


def swapped(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two ways, or of two losses, exchanged."""
    return exchanged(numbers, "way" if first in TITLES else "arm", first, second)
