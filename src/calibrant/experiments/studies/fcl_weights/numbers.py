"""What the runs of the study of focal calibration loss show, by exponent and weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.experiments.claims import exchanged
from calibrant.experiments.kept_runs import shortened
from calibrant.experiments.matching import matches
from calibrant.experiments.result import RunResult
from calibrant.experiments.studies.fcl_weights.settings import BOUNDARY_TITLES, LOSSES, NEAR, TITLES
from calibrant.experiments.studies.losses.numbers import DIGITS, ArmRuns
from calibrant.experiments.studies.losses.paired import USUAL, arms_among, by_seed
from calibrant.experiments.studies.losses.settings import DROP

Numbers = Mapping[str, Any]
PAPERS_SCALING = "temperature(objective='ece', search='grid')"
_WHERE = {**USUAL, "data.train": 10000, "reduction": "mean"}
_KEPT = ("error", "nll", "ece", "adaptive_ece", "classwise_ece")


def numbers_of(
    results: Iterable[RunResult], boundaries: Mapping[str, Sequence[Mapping[str, Any]]], *, wanted: int
) -> dict[str, Any]:
    """The results file.

    Args:
        results: Finished trainings, among them those of the grid.
        boundaries: What the networks on two half-moons have learnt, by loss, a mapping for each seed.
        wanted: How many runs the grid has.
    """
    mine = [each for each in results if matches(each.settings, _WHERE)]
    found = {
        key: by_seed(each for each in mine if each.settings["loss"] == loss) for key, loss in LOSSES.items()
    }
    numbers = {
        "wanted": wanted,
        "cpu_seconds": sum(each.cpu_seconds for runs in found.values() for each in runs),
        "arms": [{"arm": key, "runs": [_run(each) for each in runs]} for key, runs in found.items() if runs],
        "boundaries": [{"arm": key, "runs": list(runs)} for key, runs in boundaries.items()],
    }
    return shortened(numbers, DIGITS)


def _run(result: RunResult) -> dict[str, Any]:
    course = [row["calibration_nll"] for row in result.rows]
    return {
        "seed": result.settings["seed"],
        "before": {name: result.metrics["uncalibrated"][name] for name in _KEPT},
        "after": {name: result.metrics[PAPERS_SCALING][name] for name in _KEPT},
        "temperature": result.parameters[PAPERS_SCALING]["temperature"],
        "epochs": float(epochs_to(course)),
        "early": sum(course[:DROP]) / DROP,
    }


def epochs_to(course: Sequence[float]) -> int:
    """The first epoch that comes near the least value of a course.

    Example:
        >>> epochs_to([2.0, 1.04, 1.0, 3.0])
        2
    """
    return next(epoch for epoch, value in enumerate(course, 1) if value <= NEAR * min(course))


def arms_of(numbers: Numbers) -> dict[str, ArmRuns]:
    """The losses, by key."""
    return arms_among(numbers["arms"], TITLES)


def boundaries_of(numbers: Numbers) -> dict[str, ArmRuns]:
    """The networks on half-moons, by key."""
    return arms_among(numbers["boundaries"], BOUNDARY_TITLES)


def swapped(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two losses exchanged."""
    part = "boundaries" if first in BOUNDARY_TITLES else "arms"
    return {**numbers, part: exchanged(numbers[part], "arm", first, second)}
