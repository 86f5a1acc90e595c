"""What the trials of the calibrator study show: one value for each division of each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from calibrant.experiments.means import Mean, mean_of
from calibrant.experiments.records import Records

AS_THEY_CAME = "uncalibrated"
CRITERIA = ("nll", "brier", "ece", "adaptive_ece")  # fitted by each, judged by each
FITTED_BY = ("temperature", "focal-temperature")
MEASURES = ("nll", "brier", "ece", "adaptive_ece", "classwise", "smce", "accuracy")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One calibrator on one division of one file.

    Attributes:
        measures: On the half that was not fitted on; None where infinite.
        changed: Share of samples whose most probable class (of yes-or-no labels: decision) is another one.
        seconds: Processor time of the fit, on one thread.
    """

    file: str
    kind: str
    num_samples: int
    num_classes: int
    seed: int
    calibrator: str
    measures: Mapping[str, float | None]
    changed: float | None
    seconds: float | None
    failure: str | None = None


@dataclass(frozen=True)
class Summary:
    """One calibrator on one file, over the divisions; a mean is None where a value is infinite or missing."""

    calibrator: str
    means: Mapping[str, Mean | None]
    changed: float
    seconds: float | None
    failures: int


def read_trials(lines: Path) -> list[Trial]:
    """The trials of a file."""
    return [
        Trial(**{name: value for name, value in record.items() if name != "key"})
        for record in Records(lines).all()
    ]


def numbers_of(trials: Sequence[Trial], versions: Mapping[str, str]) -> dict[str, Any]:
    """The results file: the trials of every file, of the divisions that are complete."""
    files: dict[str, list[Trial]] = {}
    for trial in trials:
        files.setdefault(trial.file, []).append(trial)
    for name, found in files.items():
        per_seed = {seed: sum(each.seed == seed for each in found) for seed in {each.seed for each in found}}
        whole = max(per_seed.values())
        files[name] = [each for each in found if per_seed[each.seed] == whole]
    return {
        "files": {name: [asdict(trial) for trial in found] for name, found in files.items()},
        "versions": dict(versions),
    }


def files_of(numbers: Mapping[str, Any]) -> dict[str, list[Trial]]:
    """The trials of every file in a results file."""
    return {name: [Trial(**trial) for trial in found] for name, found in numbers["files"].items()}


def summaries(trials: Sequence[Trial]) -> list[Summary]:
    """Every calibrator's means on one file, in the order in which they were tried."""
    return [
        _summary(name, [trial for trial in trials if trial.calibrator == name])
        for name in dict.fromkeys(trial.calibrator for trial in trials)
    ]


def _summary(name: str, trials: Sequence[Trial]) -> Summary:
    fitted = [trial for trial in trials if trial.failure is None]
    means: dict[str, Mean | None] = {}
    for measure in MEASURES:
        values = [trial.measures.get(measure) for trial in fitted]
        known = [value for value in values if value is not None]
        means[measure] = mean_of(known) if known and len(known) == len(values) else None
    seconds = [trial.seconds for trial in fitted if trial.seconds is not None]
    changed = [trial.changed for trial in fitted if trial.changed is not None]
    return Summary(
        name,
        means,
        sum(changed) / len(changed) if changed else 0.0,
        sum(seconds) / len(seconds) if seconds else None,
        len(trials) - len(fitted),
    )


def gain(trials: Sequence[Trial], measure: str, first: str, second: str) -> Mean | None:
    """How much lower a measure is after the second calibrator than after the first, by divisions."""
    values = {(trial.seed, trial.calibrator): trial.measures.get(measure) for trial in trials}
    falls: list[float] = []
    for seed in sorted({trial.seed for trial in trials}):
        one, other = values.get((seed, first)), values.get((seed, second))
        if one is not None and other is not None:
            falls.append(one - other)
    return mean_of(falls) if falls else None
