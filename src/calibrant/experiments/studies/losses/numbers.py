"""What the runs of the loss study show: the results file, and means and differences over the seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from calibrant.experiments.means import Mean, mean_of
from calibrant.experiments.studies.losses.settings import Setting

STAGES = ("before", "temperature", "focal-temperature")
METRICS = ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "share_above_99")
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
    partner = {first: second, second: first}
    by_key = {arm["arm"]: arm for arm in numbers["arms"]}
    arms = [
        {**by_key[partner.get(key, key)], **{name: arm[name] for name in ("arm", "title", "changes")}}
        for key, arm in by_key.items()
    ]
    return {**numbers, "arms": arms}


def _means(arm: ArmRuns) -> dict[str, Any]:
    return {
        "n": len(arm.runs),
        "test": {stage: {name: _mean(arm.metric(stage, name)) for name in METRICS} for stage in STAGES},
        "parameters": {name: _mean(arm.parameter(name)) for name in PARAMETERS},
    }


def _mean(found: Mean) -> dict[str, float | int | None]:
    return {"mean": _rounded(found.value), "half_width": _rounded(found.half_width), "n": found.n}


def _run(run: Run) -> dict[str, Any]:
    return {key: _rounded(value) for key, value in run.items() if key != "format"}


def _rounded(value: Any) -> Any:
    """Six digits, which is more than the test images can tell apart."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
