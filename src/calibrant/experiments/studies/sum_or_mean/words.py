"""The tables of the page on sum and mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from calibrant.experiments import on_bounds
from calibrant.experiments.arms import ArmRuns, Pick, Run
from calibrant.experiments.means import mean_of
from calibrant.experiments.pages import table
from calibrant.experiments.paired import usual_words
from calibrant.experiments.studies.losses.claims import on_grid
from calibrant.experiments.studies.losses.comparisons import shown
from calibrant.experiments.studies.sum_or_mean.claims import EQUAL_STEPS, Ways, claims, equal_steps
from calibrant.experiments.studies.sum_or_mean.numbers import arms_of, tail_of
from calibrant.experiments.studies.sum_or_mean.settings import (
    HARDLY_LEARNED,
    LIGHT,
    LONG,
    LOSSES,
    RESNET_HOURS,
    SUM,
    TAIL,
    TITLES,
)

BY_ECE, AFTER_BY_ECE = "T by ECE", "ECE after T by ECE %"
COLUMNS: Mapping[str, tuple[str, Pick]] = {
    "error %": ("error", lambda run: run["stages"]["before"]["error"]),
    "ECE %": ("ece", lambda run: run["stages"]["before"]["ece"]),
    "NLL": ("nll", lambda run: run["stages"]["before"]["nll"]),
    BY_ECE: ("temperature", lambda run: run["parameters"]["ece_temperature"]),
    AFTER_BY_ECE: ("ece", lambda run: run["stages"]["by-ece"]["ece"]),
    "T": ("temperature", lambda run: run["parameters"]["temperature"]),
    "ECE after T %": ("ece", lambda run: run["stages"]["temperature"]["ece"]),
    "NLL after T": ("nll", lambda run: run["stages"]["temperature"]["nll"]),
    "norm of the last layer": ("temperature", lambda run: list(run["norms"].values())[-1]),
    "training accuracy %": ("error", lambda run: run["train_accuracy"]),
}


SOUGHT = {"T": "temperature", BY_ECE: "ece_temperature"}
"""The columns whose numbers a search found, and the names of these."""
TAIL_COLUMNS = ("error %", "ECE %", BY_ECE, AFTER_BY_ECE, "T", "ECE after T %")
"""What is shown of the long tail."""
_MAIN = {"cross-entropy": "cross-entropy", "focal-3": "focal, γ = 3", "sample-focal": "FLSD-53"}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    by_way = {way: arms_of(numbers, way) for way in TITLES}
    tail = {way: arms_of(tail_of(numbers), way) for way in TITLES}
    arms = [*_arms(by_way), *_arms(tail)]
    ours = _runs(by_way) + _runs(tail)
    tables = {TITLES[way]: _table(arms) for way, arms in by_way.items() if arms}
    of_tail = _of_tail(tail)
    marked = [*tables.values(), *of_tail["tail_tables"].values()]
    tried = {key for arms in by_way.values() for key in arms}
    found = {claim.key: claim for claim in claims(numbers)}
    equal = {
        name: [found[key] for way, _ in EQUAL_STEPS if (key := equal_steps(way, name)) in found]
        for name in ("temperature", "ece")
    }
    return {
        **usual_words(numbers, ours, [*found.values()], {}),
        **of_tail,
        "on_bound": on_bounds.note(*SOUGHT.values()) if on_bounds.ON_BOUND in "".join(marked) else "",
        "tail_equal": [
            found[key]
            for name in equal
            for way, _ in EQUAL_STEPS
            if (key := f"{equal_steps(way, name)}, {TAIL}") in found
        ],
        "tail_asked": sum(key.endswith(TAIL) for key in found),
        **_not_run({"balanced": by_way, "long-tailed": tail}, numbers, numbers["cpu_seconds"] / ours),
        "tables": tables,
        "absent": [arm.title for arm in LOSSES.arms if arm.key not in tried],
        "equal": equal,
        "by_ece_missing": sum(not _has(AFTER_BY_ECE, run) for arm in arms for run in arm.runs.values()),
        "by_way": _temperatures(by_way),
        "lost": [
            f"{arm.title} with the {TITLES[way]}{images}, seed {seed}: {run['train_accuracy']:.0%}"
            for images, part in (("", by_way), (" (long tail)", tail))
            for way, arms in part.items()
            for arm in arms.values()
            for seed, run in arm.runs.items()
            if run["train_accuracy"] < HARDLY_LEARNED
        ],
        "long": _of_focal(by_way[LONG]),
        "light": _of_focal(by_way[LIGHT]),
        "summed": _of_focal(by_way[SUM]),
        "departures": dict.fromkeys(one.what for claim in found.values() for one in claim.departures),
    }


def _arms(ways: Ways) -> list[ArmRuns]:
    return [arm for arms in ways.values() for arm in arms.values()]


def _runs(ways: Ways) -> int:
    return sum(len(arm.runs) for arm in _arms(ways))


def _not_run(parts: Mapping[str, Ways], numbers: Mapping[str, Any], per_run: float) -> dict[str, Any]:
    """What is left of the grid, and what its balanced part would cost with a ResNet.

    A part has a run of every seed for each loss of each way that has begun.
    """
    left = {images: len(_arms(ways)) * numbers["seeds"] - _runs(ways) for images, ways in parts.items()}
    said = [
        f"{runs} runs on {images} images ({runs * per_run / 3600:.1f} CPU hours)"
        for images, runs in left.items()
        if runs
    ]
    cells = len(_arms(parts["balanced"]))
    return {
        "left": " and ".join(said) or "nothing",
        "cells": cells,
        "resnet_hours": RESNET_HOURS,
        "resnet_grid": cells * RESNET_HOURS,
    }


def _of_tail(ways: Ways) -> dict[str, Any]:
    """The long tail run by run, and how often the temperature is lower after focal loss at equal steps.

    The claims that have seeds enough are asked beside it.
    """
    keys = list(dict.fromkeys(key for arms in ways.values() for key in arms))
    titles = {arm.key: arm.title for arm in LOSSES.arms}
    known = [way for way, arms in ways.items() if arms]
    columns = [title for title in TAIL_COLUMNS if _any_has(title, _arms(ways))]
    tables = {
        title: table(
            ["loss", *(TITLES[way] for way in known)],
            [[titles[key], *(_each(ways[way].get(key), title) for way in known)] for key in keys],
        )
        for title in columns
    }
    _, temperature = COLUMNS["T"]
    pairs = [
        (
            TITLES[way] if way == other else f"{TITLES[way]}, and {TITLES[other]}",
            seed,
            temperature(run),
            temperature(plain.runs[seed]),
        )
        for way, other in EQUAL_STEPS
        if (focal := ways[way].get("focal-3")) and (plain := ways[other].get("cross-entropy"))
        for seed, run in focal.runs.items()
        if seed in plain.runs
    ]
    return {
        "tail_tables": tables if keys else {},
        "tail_runs": (done := _runs(ways)),
        "tail_full": (full := min((len(arm.runs) for arm in _arms(ways)), default=0)),
        "tail_more": done - full * len(_arms(ways)),
        "tail_pairs": [
            f"{focal:.2f} against {plain:.2f} ({where}, seed {seed})" for where, seed, focal, plain in pairs
        ],
        "tail_lower": sum(focal < plain for _, _, focal, plain in pairs),
    }


def _each(arm: ArmRuns | None, title: str) -> str:
    """Every run's number, in the order of the seeds."""
    if arm is None:
        return "–"
    name, pick = COLUMNS[title]
    return "; ".join(
        shown(mean_of([value]), name).removesuffix(" %") + _mark(title, [value]) if value is not None else "–"
        for value in (pick(run) if _has(title, run) else None for run in arm.runs.values())
    )


def _has(title: str, run: Run) -> bool:
    """Whether a run kept what a column shows; runs that were made before a stage was kept lack it."""
    return title != AFTER_BY_ECE or "by-ece" in run["stages"]


def _any_has(title: str, arms: Iterable[ArmRuns]) -> bool:
    return any(_has(title, run) for arm in arms for run in arm.runs.values())


def _mark(title: str, values: Iterable[float]) -> str:
    return on_bounds.mark(SOUGHT[title], values) if title in SOUGHT else ""


def _temperatures(by_way: Ways) -> str:
    """The temperature that each way ends with, of those that both losses have."""
    title, pick = COLUMNS["T"]
    rows = [
        [TITLES[way], *(shown(arms[key].mean(pick), title) if key in arms else "" for key in _MAIN)]
        for way, arms in by_way.items()
        if any(key in arms for key in _MAIN)
    ]
    return table(["way", *("after " + name for name in _MAIN.values())], rows)


def _of_focal(arms: Mapping[str, ArmRuns]) -> dict[str, Any] | None:
    """Error and last norm after focal loss with γ = 3."""
    arm = arms.get("focal-3")
    if arm is None:
        return None
    error, norm = (COLUMNS[name][1] for name in ("error %", "norm of the last layer"))
    each = [f"{100 * error(run):.1f}" for run in arm.runs.values()]
    return {"error": arm.mean(error), "norm": arm.mean(norm), "errors": each}


def _cell(arm: ArmRuns, title: str) -> str:
    name, pick = COLUMNS[title]
    if not all(_has(title, run) for run in arm.runs.values()):
        return "–"
    mean = arm.mean(pick)
    return shown(on_grid(mean) if title == BY_ECE else mean, name).removesuffix(" %") + _mark(
        title, map(pick, arm.runs.values())
    )


def _table(arms: Mapping[str, ArmRuns]) -> str:
    columns = [title for title in COLUMNS if _any_has(title, arms.values())]
    rows = [
        [arm.title, str(len(arm.runs)), *(_cell(arm, title) for title in columns)] for arm in arms.values()
    ]
    return table(["loss", "n", *columns], rows)
