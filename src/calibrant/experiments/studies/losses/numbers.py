"""What the runs of the loss study show: the results file, and means and differences over the seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from calibrant.evaluation.quantities.roster import ROSTER
from calibrant.experiments.claims import exchanged
from calibrant.experiments.matching import Wanted, matches
from calibrant.experiments.means import Mean, mean_of
from calibrant.experiments.studies.losses.settings import Setting
from calibrant.training.recipe_files import nested

if TYPE_CHECKING:
    from calibrant.experiments.result import RunResult

DIGITS = 6
"""More than the test images can tell apart."""
STAGES = ("before", "temperature", "focal-temperature")
METRICS = ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "share_above_99")
TITLES = {each.key: each.title for each in ROSTER} | {"share_above_99": "above 0.99"}
"""Metrics in the words of every evaluation."""
KEPT = ("train_accuracy", "stages", "parameters", "classes", "norms")
PAPERS = "temperature(objective='ece', search='grid')"
"""How the papers choose a temperature."""
_KEYS = {"share_above_99": "high_confidence_share"}
"""What evaluations call a metric of the results file, where it is another name."""

Run: TypeAlias = Mapping[str, Any]
"""One run: ``stages``, ``parameters``, ``classes``, ``norms``, and its settings."""
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


def shared(*arms: ArmRuns) -> list[ArmRuns]:
    """The arms, each with only the seeds that all of them have.

    Example:
        >>> one, two = (ArmRuns(key="", title="", runs={0: {}, seed: {}}) for seed in (1, 2))
        >>> [list(arm.runs) for arm in shared(one, two)]
        [[0], [0]]
    """
    seeds = [seed for seed in arms[0].runs if all(seed in arm.runs for arm in arms)]
    return [replace(arm, runs={seed: arm.runs[seed] for seed in seeds}) for arm in arms]


def arms_of(numbers: Mapping[str, Any]) -> list[ArmRuns]:
    """The arms of a results file."""
    titles = {arm["arm"]: arm["title"] for arm in numbers["arms"]}
    return [*arms_among(numbers["arms"], titles).values()]


def arms_among(rows: Iterable[Mapping[str, Any]], titles: Mapping[str, str]) -> dict[str, ArmRuns]:
    """The arms of a list of such, by key."""
    return {
        row["arm"]: ArmRuns(
            key=row["arm"], title=titles[row["arm"]], runs={run["seed"]: run for run in row["runs"]}
        )
        for row in rows
    }


def shown(result: RunResult) -> dict[str, Any] | None:
    """What the results file keeps of a run; None where fewer calibrators were tried."""
    of_stage = dict(zip(STAGES, ("uncalibrated", *STAGES[1:]), strict=True))
    fitted = result.parameters
    if "classes" not in result.more or not {PAPERS, *STAGES[1:]} <= fitted.keys():
        return None
    return {
        "train_accuracy": result.rows[-1]["train_accuracy"],
        "stages": {
            name: {key: result.metrics[stage][_KEYS.get(key, key)] for key in METRICS}
            for name, stage in of_stage.items()
        },
        "parameters": {
            "ece_temperature": fitted[PAPERS]["temperature"],
            "temperature": fitted["temperature"]["temperature"],
            "focal_temperature": fitted["focal-temperature"]["temperature"],
            "gamma": fitted["focal-temperature"]["gamma"],
        },
        "classes": result.more["classes"],
        "norms": {str(row["epoch"]): row["last_layer_norm"] for row in result.rows},
    }


def runs_by_arm(
    runs: Iterable[Run], arms: Mapping[str, Wanted], names: Sequence[str]
) -> list[dict[str, Any]]:
    """The runs of every arm that has some, by seed: of each run what is named, as far as it has it."""
    ordered = sorted(runs, key=lambda run: run["seed"])
    found = {key: [run for run in ordered if matches(run, wanted)] for key, wanted in arms.items()}
    return [
        {"arm": key, "runs": [{name: run[name] for name in ("seed", *names) if name in run} for run in own]}
        for key, own in found.items()
        if own
    ]


def numbers_of(setting: Setting, runs: Sequence[Run], also: Mapping[str, Any]) -> dict[str, Any]:
    """The runs by arm; the recipe that arms start from, and the training samples of each class."""
    titles = {arm.key: arm.title for arm in setting.arms}
    arms = [{**each, "title": titles[each["arm"]]} for each in runs_by_arm(runs, setting.wanted, KEPT)]
    return {
        "setting": setting.key,
        "title": setting.title,
        "recipe": nested({name: value for name, value in runs[0].items() if name not in KEPT}),
        **also,
        "seeds_wanted": max(len(arm["runs"]) for arm in arms),
        "arms": arms,
        "absent": [title for key, title in titles.items() if key not in {each["arm"] for each in arms}],
    }


def swapped(numbers: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two arms exchanged; names and titles stay."""
    titles = {arm["arm"]: {"title": arm["title"]} for arm in numbers["arms"]}
    arms = exchanged(numbers["arms"], "arm", first, second)
    return {**numbers, "arms": [arm | titles[arm["arm"]] for arm in arms]}
