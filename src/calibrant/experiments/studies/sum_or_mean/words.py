"""The tables of the page on sum and mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from calibrant.experiments.arms import ArmRuns, Pick
from calibrant.experiments.pages import table
from calibrant.experiments.paired import usual_words
from calibrant.experiments.studies.losses.claims import on_grid, shown
from calibrant.experiments.studies.sum_or_mean.claims import EQUAL_STEPS, claims, equal_steps
from calibrant.experiments.studies.sum_or_mean.numbers import arms_of
from calibrant.experiments.studies.sum_or_mean.settings import (
    HARDLY_LEARNED,
    LIGHT,
    LONG,
    LOSSES,
    SUM,
    TITLES,
)

BY_ECE = "T by ECE"
COLUMNS: Mapping[str, tuple[str, Pick]] = {
    "error %": ("error", lambda run: run["stages"]["before"]["error"]),
    "ECE %": ("ece", lambda run: run["stages"]["before"]["ece"]),
    "NLL": ("nll", lambda run: run["stages"]["before"]["nll"]),
    "T": ("temperature", lambda run: run["parameters"]["temperature"]),
    BY_ECE: ("temperature", lambda run: run["parameters"]["ece_temperature"]),
    "ECE after T %": ("ece", lambda run: run["stages"]["temperature"]["ece"]),
    "NLL after T": ("nll", lambda run: run["stages"]["temperature"]["nll"]),
    "norm of the last layer": ("temperature", lambda run: list(run["norms"].values())[-1]),
    "training accuracy %": ("error", lambda run: run["train_accuracy"]),
}


_MAIN = {"cross-entropy": "cross-entropy", "focal-3": "focal, γ = 3", "sample-focal": "FLSD-53"}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    by_way = {way: arms_of(numbers, way) for way in TITLES}
    ours = sum(len(arm.runs) for arms in by_way.values() for arm in arms.values())
    tried = {key for arms in by_way.values() for key in arms}
    found = {claim.key: claim for claim in claims(numbers)}
    equal = [found[key] for way, _ in EQUAL_STEPS if (key := equal_steps(way, "temperature")) in found]
    return {
        **usual_words(numbers, ours, [*found.values()], {}),
        "tables": {TITLES[way]: _table(arms) for way, arms in by_way.items() if arms},
        "absent": [arm.title for arm in LOSSES.arms if arm.key not in tried],
        "equal": equal,
        "equal_holds": sum(claim.verdict == "holds" for claim in equal),
        "equal_fails": sum(claim.verdict == "does not hold" for claim in equal),
        "by_way": _temperatures(by_way),
        "lost": [
            f"{arm.title} with the {TITLES[way]}, seed {seed}: {run['train_accuracy']:.0%}"
            for way, arms in by_way.items()
            for arm in arms.values()
            for seed, run in arm.runs.items()
            if run["train_accuracy"] < HARDLY_LEARNED
        ],
        "long": _of_focal(by_way[LONG]),
        "light": _of_focal(by_way[LIGHT]),
        "summed": _of_focal(by_way[SUM]),
        "verdicts": Counter(str(claim.verdict) for claim in found.values()),
        "departures": dict.fromkeys(one.what for claim in found.values() for one in claim.departures),
    }


def _temperatures(by_way: Mapping[str, Mapping[str, ArmRuns]]) -> str:
    """The temperature that each way ends with, of those that both losses have."""
    title, pick = COLUMNS["T"]
    rows = [
        [TITLES[way], *(shown(arms[key].mean(pick), title) if key in arms else "" for key in _MAIN)]
        for way, arms in by_way.items()
        if any(key in arms for key in _MAIN)
    ]
    return table(["steps", *("after " + name for name in _MAIN.values())], rows)


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
            *(
                shown(on_grid(mean) if title == BY_ECE else mean, name).removesuffix(" %")
                for title, (name, pick) in COLUMNS.items()
                for mean in [arm.mean(pick)]
            ),
        ]
        for arm in arms.values()
    ]
    return table(["loss", "n", *COLUMNS], rows)
