"""What the runs of the shift study show: one value per seed for every loss, calibrator and severity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.experiments.claims import exchanged
from calibrant.experiments.means import mean_of, rounded
from calibrant.experiments.studies.shift.settings import (
    CORRUPTED,
    CORRUPTIONS,
    DEFAULTS,
    FOREIGN,
    SEVERITIES,
    STAGES,
    TITLES,
)

Numbers = Mapping[str, Any]
DIGITS = 6
JUDGED = ("error", "ece", "nll", "gap")


def numbers_of(runs: Sequence[Mapping[str, Any]], *, wanted: int, seconds: Sequence[float]) -> dict[str, Any]:
    """The results file.

    Args:
        runs: Settings and findings of the finished runs.
        wanted: How many runs the grid has.
        seconds: Processor time of each run, as far as it is known.
    """
    known = [loss for loss in TITLES if any(run["loss"] == loss for run in runs)]
    return {
        "setting": {name: runs[0][name] for name in DEFAULTS if name != "loss"},
        "wanted": wanted,
        "cpu_seconds": rounded(sum(seconds), DIGITS),
        "arms": [
            {
                "loss": loss,
                "runs": [_run(run) for run in sorted(runs, key=_seed) if run["loss"] == loss],
            }
            for loss in known
        ],
    }


def _seed(run: Mapping[str, Any]) -> int:
    return int(run["seed"])


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    """Means over corruptions by severity, and each corruption's ECE at the highest."""
    shifts = {
        severity: [each for each in run["shifts"] if each["severity"] == severity] for severity in SEVERITIES
    }
    by_severity = {
        stage: [
            {
                name: rounded(
                    mean_of(
                        [each[stage][name] for each in run["shifts"] if each["severity"] == severity]
                    ).value,
                    DIGITS,
                )
                for name in JUDGED
            }
            for severity in SEVERITIES
        ]
        for stage in STAGES
    }
    return {
        "seed": run["seed"],
        "train_accuracy": rounded(run["train_accuracy"], DIGITS),
        "temperature": rounded(run["temperature"], DIGITS),
        "clean": _rounded(run["clean"]),
        "severities": by_severity,
        "worst": {
            each["corruption"]: {stage: rounded(each[stage]["ece"], DIGITS) for stage in STAGES}
            for each in shifts[SEVERITIES[-1]]
        },
        "foreign": _rounded(run["foreign"]),
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return rounded(value, DIGITS)


def swapped(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two losses, or of two calibrators, exchanged."""
    if first in TITLES:
        return {**numbers, "arms": exchanged(numbers["arms"], "loss", first, second)}
    arms = [
        {**arm, "runs": [_stages_swapped(run, first, second) for run in arm["runs"]]}
        for arm in numbers["arms"]
    ]
    return {**numbers, "arms": arms}


def _stages_swapped(value: Any, first: str, second: str) -> Any:
    """Wherever both calibrators stand side by side, their numbers exchanged."""
    if not isinstance(value, Mapping):
        return value
    turned = dict(value)
    if first in value and second in value:
        turned[first], turned[second] = value[second], value[first]
    return {key: _stages_swapped(each, first, second) for key, each in turned.items()}


def runs_of_loss(numbers: Numbers, loss: str) -> dict[int, Mapping[str, Any]]:
    """The runs of a loss by seed; none if it is not there."""
    arm = next((each for each in numbers["arms"] if each["loss"] == loss), {"runs": []})
    return {run["seed"]: run for run in arm["runs"]}


def auroc(run: Mapping[str, Any], foreign: str, stage: str, score: str = "max_probability") -> float:
    """The AUROC of telling foreign images."""
    return float(run["foreign"][foreign][stage][score])


def foreign_sets() -> dict[str, str]:
    """Foreign sets by key, with what they are called."""
    return {**FOREIGN, CORRUPTED: f"corrupted ({len(CORRUPTIONS)} kinds, severity {SEVERITIES[-1]})"}
