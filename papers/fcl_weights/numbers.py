"""What the runs of the study of focal calibration loss show, by exponent and weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant_lab.sweep.result import RunResult
from papers.arms import ArmRuns, Run, arms_among, runs_by_arm
from papers.fcl_weights.settings import BOUNDARY_TITLES, LOSSES, NEAR, TITLES
from papers.losses.numbers import PAPERS
from papers.losses.settings import DROP

Numbers = Mapping[str, Any]
_METRICS = ("error", "nll", "ece", "adaptive_ece", "classwise_ece")
_FOUND = ("before", "after", "temperature", "epochs", "early")


def kept_of(result: RunResult) -> dict[str, Any]:
    """What the results file keeps of a run."""
    course = [row["calibration_nll"] for row in result.rows]
    return {
        "cpu_seconds": result.cpu_seconds,
        "before": {name: result.metrics["uncalibrated"][name] for name in _METRICS},
        "after": {name: result.metrics[PAPERS][name] for name in _METRICS},
        "temperature": result.parameters[PAPERS]["temperature"],
        "epochs": float(epochs_to(course)),
        "early": sum(course[:DROP]) / DROP,
    }


def numbers_of(runs: Sequence[Run], also: Mapping[str, Any]) -> dict[str, Any]:
    """The runs by loss, what they took, and the networks on half-moons."""
    return {
        **also,
        "cpu_seconds": sum(run["cpu_seconds"] for run in runs),
        "arms": runs_by_arm(runs, {key: {"loss": loss} for key, loss in LOSSES.items()}, _FOUND),
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
