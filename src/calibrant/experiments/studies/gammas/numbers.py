"""What the runs of the study of exponents show: the rows of table 1, and training and new images by size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from calibrant.experiments.claims import exchanged
from calibrant.experiments.kept_runs import shortened
from calibrant.experiments.matching import matches
from calibrant.experiments.result import RunResult
from calibrant.experiments.studies.gammas.settings import LOSSES, OF_SIZES, ROWS_SIZE, SIZES, TITLES
from calibrant.experiments.studies.losses.numbers import DIGITS, ArmRuns
from calibrant.experiments.studies.losses.paired import USUAL, arms_among, by_seed

Numbers = Mapping[str, Any]
Read = Callable[[RunResult], Mapping[str, Any]]
_WHERE = {
    **USUAL,
    "reduction": "sum",
    "loss": [loss for loss, _ in LOSSES.values()],
    "data.train": list(SIZES),
}


def numbers_of(
    results: Iterable[RunResult], fits_of: Read, *, closest: Mapping[str, float], wanted: int
) -> dict[str, Any]:
    """The results file.

    Args:
        results: Finished trainings, among them those of the grid.
        fits_of: Temperature and focal temperature scaling of a run.
        closest: The temperature closest to the focal map of each exponent.
        wanted: How many runs the grid has.
    """
    mine = _distinct(each for each in results if matches(each.settings, _WHERE))
    of_rows = [each for each in mine if each.settings["data.train"] == ROWS_SIZE]
    measured = [each for each in mine if "train_side" in each.more]
    sizes = [
        {
            "size": str(size),
            "arms": _arms([r for r in measured if r.settings["data.train"] == size], OF_SIZES, sides),
        }
        for size in SIZES
    ]
    numbers = {
        "wanted": wanted,
        "done": len(mine),
        "cpu_seconds": sum(each.cpu_seconds for each in mine),
        "closest": dict(closest),
        "rows": _arms(of_rows, tuple(LOSSES), lambda each: {"error": _error(each), **fits_of(each)}),
        "sizes": [each for each in sizes if each["arms"]],
    }
    return shortened(numbers, DIGITS)


def _distinct(results: Iterable[RunResult]) -> list[RunResult]:
    """A run for each loss, number of images and seed."""
    groups: dict[tuple[Any, ...], list[RunResult]] = {}
    for each in results:
        groups.setdefault((each.settings["data.train"], each.settings["loss"]), []).append(each)
    return [run for group in groups.values() for run in by_seed(group)]


def _arms(results: Sequence[RunResult], keys: Sequence[str], read: Read) -> list[dict[str, Any]]:
    found = {
        key: by_seed(each for each in results if each.settings["loss"] == LOSSES[key][0]) for key in keys
    }
    return [
        {"arm": key, "runs": [{"seed": each.settings["seed"], **read(each)} for each in runs]}
        for key, runs in found.items()
        if runs
    ]


def sides(result: RunResult) -> dict[str, Any]:
    """A run on its training images and on new ones."""
    plain = result.metrics["uncalibrated"]
    return {
        "train": result.more["train_side"],
        "new": {
            **{name: plain[name] for name in ("ece", "nll", "gap")},
            "temperature": result.parameters["temperature"]["temperature"],
            "error": _error(result),
        },
    }


def _error(result: RunResult) -> float | None:
    return result.metrics["uncalibrated"]["error"]


def rows_of(numbers: Numbers) -> dict[str, ArmRuns]:
    """The rows of table 1, by key."""
    return arms_among(numbers["rows"], TITLES)


def of_size(numbers: Numbers, size: int) -> dict[str, ArmRuns]:
    """The losses with so many training images, by key."""
    rows = next((each["arms"] for each in numbers["sizes"] if each["size"] == str(size)), [])
    return arms_among(rows, TITLES)


def swapped(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two losses exchanged, wherever both are."""

    def turned(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        both = {first, second} <= {row["arm"] for row in rows}
        return exchanged(rows, "arm", first, second) if both else rows

    sizes = [{**each, "arms": turned(each["arms"])} for each in numbers["sizes"]]
    return {**numbers, "rows": turned(numbers["rows"]), "sizes": sizes}
