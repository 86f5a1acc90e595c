"""What the runs of the study of exponents show: the rows of table 1, and training and new images by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant._math.means import rounded
from papers.arms import ArmRuns, Run, arms_among, arms_where, runs_by_arm
from papers.gammas.settings import (
    CLASSES,
    FITS,
    FOCAL,
    LOSSES,
    OF_SIZES,
    ROWS_SIZE,
    SIZES,
    TITLES,
)
from papers.losses.numbers import DIGITS

Numbers = Mapping[str, Any]


def numbers_of(runs: Sequence[Run], also: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of table 1, training and new images by size, and what the runs took."""
    rows = {key: {"data.train": ROWS_SIZE, "loss": loss} for key, (loss, _) in LOSSES.items()}
    measured = [run for run in runs if "train" in run]
    sizes = {
        size: runs_by_arm(
            measured, {key: {**rows[key], "data.train": size} for key in OF_SIZES}, ("train", "new")
        )
        for size in SIZES
    }
    epochs = {run["data.train"]: run["training.epochs"] for run in measured}
    return {
        **also,
        "done": len(runs),
        "cpu_seconds": sum(run["cpu_seconds"] for run in runs),
        "rows": runs_by_arm(runs, rows, ("error", *FITS)),
        "sizes": [
            {"size": str(size), "epochs": epochs[size], "arms": arms} for size, arms in sizes.items() if arms
        ],
    }


def closest(_runs: Sequence[Run], _known: Mapping[str, Any]) -> dict[str, Any]:
    """The temperature closest to the focal map of each exponent."""
    from calibrant.theory import closest_temperature

    found = {str(gamma): closest_temperature(gamma, CLASSES).temperature for gamma in FOCAL.values()}
    return {"closest": {gamma: rounded(value, DIGITS) for gamma, value in found.items()}}


def rows_of(numbers: Numbers) -> dict[str, ArmRuns]:
    """The rows of table 1, by key."""
    return arms_among(numbers["rows"], TITLES)


def of_size(numbers: Numbers, size: int) -> dict[str, ArmRuns]:
    """The losses with so many training images, by key."""
    return arms_where(numbers["sizes"], "size", str(size), TITLES)
