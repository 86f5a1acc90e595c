"""What the runs of the loss study show: the results file, and means and differences over the seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calibrant.evaluation.quantities.roster import ROSTER
from calibrant_lab.training.recipe_files import nested
from papers.arms import ArmRuns, Run, arms_among, runs_by_arm
from papers.claims import exchanged
from papers.losses.settings import Setting

if TYPE_CHECKING:
    from calibrant_lab.sweep.result import RunResult

DIGITS = 6
"""More than the test images can tell apart."""
STAGES = ("before", "temperature", "focal-temperature")
"""Stages at which every class is measured."""
BY_ECE, BY_ADAPTIVE_ECE = "by-ece", "by-adaptive-ece"
"""Stages after a temperature that is chosen as the papers choose it."""
METRICS = ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "share_above_99")
TITLES = {each.key: each.title for each in ROSTER} | {"share_above_99": "above 0.99"}
"""Metrics in the words of every evaluation."""
KEPT = ("train_accuracy", "stages", "parameters", "classes", "norms")
PAPERS = "temperature(objective='ece', search='grid')"
"""How the papers choose a temperature."""
_KEYS = {"share_above_99": "high_confidence_share"}
"""What evaluations call a metric of the results file, where it is another name."""


def arms_of(numbers: Mapping[str, Any]) -> list[ArmRuns]:
    """The arms of a results file."""
    titles = {arm["arm"]: arm["title"] for arm in numbers["arms"]}
    return [*arms_among(numbers["arms"], titles).values()]


def shown(result: RunResult) -> dict[str, Any] | None:
    """What the results file keeps of a run; None where fewer calibrators were tried."""
    from calibrant.predictions import load_predictions
    from papers.losses.repaired import by_adaptive_ece

    of_stage = {**dict(zip(STAGES, ("uncalibrated", *STAGES[1:]), strict=True)), BY_ECE: PAPERS}
    fitted = result.parameters
    if "classes" not in result.more or not {PAPERS, *STAGES[1:]} <= fitted.keys():
        return None
    adaptive, temperature = by_adaptive_ece(load_predictions(result.file("predictions.npz")))
    return {
        "train_accuracy": result.rows[-1]["train_accuracy"],
        "stages": {
            name: {key: result.metrics[stage][_KEYS.get(key, key)] for key in METRICS}
            for name, stage in of_stage.items()
        }
        | {BY_ADAPTIVE_ECE: adaptive},
        "parameters": {
            "ece_temperature": fitted[PAPERS]["temperature"],
            "adaptive_ece_temperature": temperature,
            "temperature": fitted["temperature"]["temperature"],
            "focal_temperature": fitted["focal-temperature"]["temperature"],
            "gamma": fitted["focal-temperature"]["gamma"],
        },
        "classes": result.more["classes"],
        "norms": {str(row["epoch"]): row["last_layer_norm"] for row in result.rows},
    }


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
