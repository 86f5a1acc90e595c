"""What the runs on CIFAR-10 show, by way and loss, and as the study of exponents has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant_lab.sweep.kept_runs import DEVICE
from calibrant_lab.sweep.matching import matches
from papers.arms import ArmRuns, Run, arms_where, runs_by_arm
from papers.cifar10.settings import STEPS, SUM, TITLES, WANTED
from papers.claims import exchanged
from papers.gammas.numbers import numbers_of as exponents_of
from papers.losses.settings import DECAY

Numbers = Mapping[str, Any]
_FOUND = (
    *("train_accuracy", "stages", "parameters", "norms", "people", "shift", "train", "new"),
    *("gradients", "clipped", DEVICE),
)


def numbers_of(runs: Sequence[Run], also: Mapping[str, Any]) -> dict[str, Any]:
    """The runs by way and loss; those with the sum once more as rows of table 1."""
    of_way = {key: [run for run in runs if matches(run, way.where)] for key, way in STEPS.items()}
    decayed = [run for run in of_way[SUM] if run["optimiser.weight_decay"] == DECAY]
    return {
        **also,
        "done": len(runs),
        "on_gpu": sum(DEVICE in run for run in runs),
        "cpu_seconds": sum(run["cpu_seconds"] for run in runs if DEVICE not in run),
        "ways": [
            {"way": way, "arms": runs_by_arm(found, WANTED, _FOUND)} for way, found in of_way.items() if found
        ],
        "exponents": exponents_of(decayed, {}),
    }


def arms_of(numbers: Numbers, way: str) -> dict[str, ArmRuns]:
    """The losses of a way, by key."""
    return arms_where(numbers["ways"], "way", way, TITLES)


def swapped(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two ways, or of two losses, exchanged."""
    return exchanged(numbers, "way" if first in STEPS else "arm", first, second)
