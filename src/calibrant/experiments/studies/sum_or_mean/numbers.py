"""What the runs of the study of sum and mean show, by way and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.experiments.claims import exchanged
from calibrant.experiments.kept_runs import shortened
from calibrant.experiments.studies.losses.numbers import DIGITS, ArmRuns
from calibrant.experiments.studies.sum_or_mean.settings import FEWEST_SEEDS, LOSSES, TITLES

Numbers = Mapping[str, Any]
_KEPT = ("seed", "train_accuracy", "stages", "parameters", "norms")


def numbers_of(
    found: Mapping[str, Sequence[Mapping[str, Any]]], *, wanted: int, seconds: float
) -> dict[str, Any]:
    """The results file.

    Args:
        found: Arms with their runs, by way.
        wanted: How many runs the grid has.
        seconds: Processor time of the runs that were made for this study.
    """
    numbers = {
        "wanted": wanted,
        "cpu_seconds": seconds,
        "ways": [
            {
                "way": way,
                "arms": [
                    {
                        "arm": arm["arm"],
                        "runs": [{name: run[name] for name in _KEPT} for run in arm["runs"]],
                    }
                    for arm in found[way]
                ],
            }
            for way in TITLES
            if found.get(way)
        ],
    }
    return shortened(numbers, DIGITS)


def arms_of(numbers: Numbers, way: str, *, enough: bool = False) -> dict[str, ArmRuns]:
    """The losses of a way, by key; with ``enough`` those with as many seeds as decide anything."""
    titles = {arm.key: arm.title for arm in LOSSES.arms}
    rows = next((each["arms"] for each in numbers["ways"] if each["way"] == way), [])
    arms = {
        row["arm"]: ArmRuns(
            key=row["arm"], title=titles[row["arm"]], runs={run["seed"]: run for run in row["runs"]}
        )
        for row in rows
    }
    return {key: arm for key, arm in arms.items() if not enough or len(arm.runs) >= FEWEST_SEEDS}


def swapped(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two ways, or of two losses, exchanged."""
    if first in TITLES:
        return {**numbers, "ways": exchanged(numbers["ways"], "way", first, second)}
    ways = [
        {**way, "arms": exchanged(way["arms"], "arm", first, second)}
        if {first, second} <= {row["arm"] for row in way["arms"]}
        else way
        for way in numbers["ways"]
    ]
    return {**numbers, "ways": ways}
