"""What the runs of the loss study show: the results file, and means and differences over the seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from calibrant.evaluation.quantities.roster import ROSTER
from calibrant.experiments.claims import exchanged
from calibrant.experiments.means import Mean, mean_of, rounded, summary
from calibrant.experiments.studies.losses.settings import Setting

DIGITS = 6
"""More than the test images can tell apart."""
STAGES = ("before", "temperature", "focal-temperature")
METRICS = ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "share_above_99")
TITLES = {each.key: each.title for each in ROSTER} | {"share_above_99": "above 0.99"}
"""Metrics in the words of every evaluation."""
PARAMETERS = ("temperature", "ece_temperature", "focal_temperature", "gamma")

Run: TypeAlias = Mapping[str, Any]
"""One run: ``stages``, ``parameters``, ``classes``, ``norms`` and how it was made."""
Pick: TypeAlias = Callable[[Run], float]


@dataclass(frozen=True, kw_only=True)
class ArmRuns:
    """The finished runs of one arm, by seed."""

    key: str
    title: str
    runs: Mapping[int, Run]

    def mean(self, pick: Pick) -> Mean:
        """Something of each run, over the seeds."""
        return mean_of([pick(run) for run in self.runs.values()])

    def metric(self, stage: str, name: str) -> Mean:
        """A metric on the test split, before or after a calibrator."""
        return self.mean(lambda run: run["stages"][stage][name])

    def parameter(self, name: str) -> Mean:
        """A fitted parameter: ``temperature``, ``ece_temperature``, ``focal_temperature`` or ``gamma``."""
        return self.mean(lambda run: run["parameters"][name])


def difference(first: ArmRuns, second: ArmRuns, pick: Pick) -> Mean | None:
    """Mean of first minus second over the seeds that both have; None without any."""
    shared = [seed for seed in first.runs if seed in second.runs]
    if not shared:
        return None
    return mean_of([pick(first.runs[seed]) - pick(second.runs[seed]) for seed in shared])


def arms_of(numbers: Mapping[str, Any]) -> list[ArmRuns]:
    """The arms of a results file."""
    return [
        ArmRuns(key=arm["arm"], title=arm["title"], runs={run["seed"]: run for run in arm["runs"]})
        for arm in numbers["arms"]
    ]


def numbers_of(
    setting: Setting,
    found: Mapping[str, Mapping[int, Run]],
    *,
    recipe: Mapping[str, Any],
    counts: Sequence[int],
    wanted: int,
    published: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """The results file: means with intervals, every run's own numbers, and what the papers print.

    Args:
        setting: Data, network and arms.
        found: The runs by arm and seed.
        recipe: What the arms start from, in full.
        counts: Training samples of each class.
        wanted: How many seeds are wanted.
        published: Printed numbers of the same methods.
    """
    known = [arm for arm in setting.arms if arm.key in found]
    return {
        "setting": setting.key,
        "title": setting.title,
        "recipe": recipe,
        "training_counts": list(counts),
        "seeds_wanted": wanted,
        "arms": [
            {
                "arm": arm.key,
                "title": arm.title,
                "changes": list(arm.changes),
                **_means(ArmRuns(key=arm.key, title=arm.title, runs=found[arm.key])),
                "runs": [_run(run) for run in found[arm.key].values()],
            }
            for arm in known
        ],
        "absent": [arm.title for arm in setting.arms if arm not in known],
        "published": list(published),
    }


def swapped(numbers: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two arms exchanged; names, changes and seeds stay."""
    arms = zip(numbers["arms"], exchanged(numbers["arms"], "arm", first, second), strict=True)
    kept = [{**turned, "title": arm["title"], "changes": arm["changes"]} for arm, turned in arms]
    return {**numbers, "arms": kept}


def _means(arm: ArmRuns) -> dict[str, Any]:
    runs = arm.runs.values()
    return {
        "n": len(runs),
        "test": {
            stage: {name: summary([run["stages"][stage][name] for run in runs], DIGITS) for name in METRICS}
            for stage in STAGES
        },
        "parameters": {
            name: summary([run["parameters"][name] for run in runs], DIGITS) for name in PARAMETERS
        },
    }


def _run(run: Run) -> dict[str, Any]:
    return {key: _rounded(value) for key, value in run.items() if key != "format"}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return rounded(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
