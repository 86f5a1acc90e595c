"""The tables of the page on sum and mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.experiments.pages import table
from calibrant.experiments.studies.losses.claims import shown
from calibrant.experiments.studies.losses.numbers import ArmRuns, Pick
from calibrant.experiments.studies.sum_or_mean.claims import claims
from calibrant.experiments.studies.sum_or_mean.numbers import arms_of
from calibrant.experiments.studies.sum_or_mean.settings import FEWEST_SEEDS, LONG, LOSSES, MEAN, SUM, TITLES

COLUMNS: Mapping[str, tuple[str, Pick]] = {
    "error %": ("error", lambda run: run["stages"]["before"]["error"]),
    "ECE %": ("ece", lambda run: run["stages"]["before"]["ece"]),
    "NLL": ("nll", lambda run: run["stages"]["before"]["nll"]),
    "T": ("temperature", lambda run: run["parameters"]["temperature"]),
    "T by ECE": ("temperature", lambda run: run["parameters"]["ece_temperature"]),
    "ECE after T %": ("ece", lambda run: run["stages"]["temperature"]["ece"]),
    "NLL after T": ("nll", lambda run: run["stages"]["temperature"]["nll"]),
    "norm of the last layer": ("temperature", lambda run: list(run["norms"].values())[-1]),
    "training accuracy %": ("error", lambda run: run["train_accuracy"]),
}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    by_way = {way: arms_of(numbers, way) for way in TITLES}
    ours = sum(len(arm.runs) for way, arms in by_way.items() if way != MEAN for arm in arms.values())
    tried = {key for way, arms in by_way.items() if way != MEAN for key in arms}
    per_run = numbers["cpu_seconds"] / ours
    verdicts: dict[str, int] = {}
    for claim in claims(numbers):
        verdicts[claim.verdict] = verdicts.get(claim.verdict, 0) + 1
    return {
        "tables": {TITLES[way]: _table(arms) for way, arms in by_way.items() if arms},
        "done": ours,
        "mean_runs": sum(len(arm.runs) for arm in by_way[MEAN].values()),
        "minutes": numbers["cpu_seconds"] / 60,
        "per_run": per_run,
        "left_hours": (numbers["wanted"] - ours) * per_run / 3600,
        "absent": [arm.title for arm in LOSSES.arms if arm.key not in tried],
        "fewest": FEWEST_SEEDS,
        "long": _of_focal(by_way[LONG]),
        "summed": _of_focal(by_way[SUM]),
        "verdicts": verdicts,
        "claim_table": _claim_table(numbers),
    }


def _of_focal(arms: Mapping[str, ArmRuns]) -> dict[str, Any] | None:
    """Error and last norm after focal loss with γ = 3."""
    arm = arms.get("focal-3")
    if arm is None:
        return None
    error, norm = (COLUMNS[name][1] for name in ("error %", "norm of the last layer"))
    each = [f"{100 * error(run):.1f}" for run in arm.runs.values()]
    return {"error": arm.mean(error), "norm": arm.mean(norm), "errors": each}


def _table(arms: Mapping[str, ArmRuns]) -> str:
    rows = [
        [
            arm.title,
            str(len(arm.runs)),
            *(shown(arm.mean(pick), name).removesuffix(" %") for name, pick in COLUMNS.values()),
        ]
        for arm in arms.values()
    ]
    return table(["loss", "n", *COLUMNS], rows)


def _claim_table(numbers: Mapping[str, Any]) -> str:
    heads = ["claim", "of", "here", "numbers"]
    rows = [[f"{claim.statement}.", claim.source, claim.verdict, claim.evidence] for claim in claims(numbers)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *rows))
