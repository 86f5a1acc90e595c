"""What the runs of the shift study show: one value per seed for every loss, calibrator and severity."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from calibrant.experiments.claims import exchanged, sides_exchanged
from calibrant.experiments.means import Mean, mean_of, paired_difference
from calibrant.experiments.studies.shift.settings import (
    CORRUPTED,
    DEFAULTS,
    FOREIGN,
    SEVERITIES,
    STAGES,
    TITLES,
)

Numbers = Mapping[str, Any]
DIGITS = 6
JUDGED = ("error", "ece", "nll", "gap")
_KEPT = ("train_accuracy", "temperature", "clean", "clean_shown", "foreign")


def kept_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Means over corruptions by severity, and the ECE under each corruption."""
    by_severity = {
        severity: [each for each in found["shifts"] if each["severity"] == severity]
        for severity in SEVERITIES
    }
    return {
        **{name: found[name] for name in _KEPT},
        "severities": {
            stage: [
                {name: mean_of([each[stage][name] for each in of]).value for name in JUDGED}
                for of in by_severity.values()
            ]
            for stage in STAGES
        },
        "corruptions": {
            corruption: {
                stage: [
                    each[stage]["ece"]
                    for of in by_severity.values()
                    for each in of
                    if each["corruption"] == corruption
                ]
                for stage in STAGES
            }
            for corruption in dict.fromkeys(each["corruption"] for each in found["shifts"])
        },
    }


def numbers_of(runs: Sequence[Mapping[str, Any]], _also: Mapping[str, Any]) -> dict[str, Any]:
    """The runs by loss, and what they took."""
    by_seed = sorted(runs, key=lambda run: run["seed"])
    of_loss = {loss: [run for run in by_seed if run["loss"] == loss] for loss in TITLES}
    names = ("seed", *_KEPT, "severities", "corruptions")
    return {
        "setting": {name: runs[0][name] for name in DEFAULTS if name != "loss"},
        "corruptions": list(runs[0]["corruptions"]),
        "wanted": len(of_loss) * max(map(len, of_loss.values())),
        "cpu_seconds": sum(run["cpu_seconds"] for run in runs),
        "arms": [
            {"loss": loss, "runs": [{name: run[name] for name in names} for run in own]}
            for loss, own in of_loss.items()
            if own
        ],
    }


def swapped(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two losses, or of two calibrators, exchanged."""
    if first in TITLES:
        return exchanged(numbers, "loss", first, second)
    return sides_exchanged(numbers, first, second)


def runs_of_loss(numbers: Numbers, loss: str) -> dict[int, Mapping[str, Any]]:
    """The runs of a loss by seed; none if it is not there."""
    arm = next((each for each in numbers["arms"] if each["loss"] == loss), {"runs": []})
    return {run["seed"]: run for run in arm["runs"]}


def corruptions_of(runs: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """The corruptions of every run."""
    return list(next(iter(runs.values()))["corruptions"])


def effect(
    runs: Mapping[int, Mapping[str, Any]], place: int, first: str, second: str, without: str = ""
) -> Mean:
    """How much the mean ECE over corruptions, or all but one, is higher after the first calibrator."""
    left = [name for name in corruptions_of(runs) if name != without]
    means = [
        [mean_of([run["corruptions"][name][stage][place] for name in left]).value for run in runs.values()]
        for stage in (first, second)
    ]
    return paired_difference(*means)


def largest(runs: Mapping[int, Mapping[str, Any]], place: int, first: str, second: str) -> str:
    """The corruption under which two calibrators differ most."""

    def difference(name: str) -> float:
        found = [run["corruptions"][name] for run in runs.values()]
        return abs(mean_of([each[first][place] - each[second][place] for each in found]).value)

    return max(corruptions_of(runs), key=difference)


def rise(runs: Mapping[int, Mapping[str, Any]], stage: str, without: Collection[str] = ()) -> Mean:
    """How far the mean ECE at the highest severity, over all or some corruptions, is above the clean one."""
    left = [name for name in corruptions_of(runs) if name not in without]
    shifted = [mean_of([run["corruptions"][name][stage][-1] for name in left]).value for run in runs.values()]
    return paired_difference(shifted, [run["clean_shown"][stage]["ece"] for run in runs.values()])


def farthest_from_clean(runs: Mapping[int, Mapping[str, Any]], stage: str, number: int) -> list[str]:
    """The corruptions under which the ECE at the highest severity differs most from the clean one."""
    names = corruptions_of(runs)

    def difference(name: str) -> float:
        return abs(rise(runs, stage, [each for each in names if each != name]).value)

    return sorted(names, key=difference, reverse=True)[:number]


def auroc(run: Mapping[str, Any], foreign: str, stage: str, score: str = "max_probability") -> float:
    """The AUROC of telling foreign images."""
    return float(run["foreign"][foreign][stage][score])


def foreign_sets(kinds: int, foreign: Mapping[str, str] = FOREIGN) -> dict[str, str]:
    """Foreign sets by key, with what they are called; images under so many corruptions are the last."""
    return {**foreign, CORRUPTED: f"corrupted ({kinds} kinds, severity {SEVERITIES[-1]})"}
