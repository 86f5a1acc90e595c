"""The tables of the page on sum and mean, and what its sentences depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from calibrant._math.means import Mean, mean_of
from papers import on_bounds
from papers.arms import ArmRuns, Pick, difference, shared
from papers.claims import Claim
from papers.losses.claims import on_grid
from papers.losses.comparisons import shown
from papers.losses.settings import OF_FCL
from papers.pages import table
from papers.paired import usual_words
from papers.sum_or_mean.claims import EQUAL_STEPS, Ways, claims, equal_steps
from papers.sum_or_mean.numbers import arms_of, tail_of
from papers.sum_or_mean.settings import (
    HARDLY_LEARNED,
    LIGHT,
    LONG,
    LOSSES,
    MEAN,
    RESNET_HOURS,
    SLOW,
    SUM,
    TAIL,
    TITLES,
    WAYS,
)

BY_ECE = "T by ECE"
COLUMNS: Mapping[str, tuple[str, Pick]] = {
    "error %": ("error", lambda run: run["stages"]["before"]["error"]),
    "ECE %": ("ece", lambda run: run["stages"]["before"]["ece"]),
    "NLL": ("nll", lambda run: run["stages"]["before"]["nll"]),
    BY_ECE: ("temperature", lambda run: run["parameters"]["ece_temperature"]),
    "ECE after T by ECE %": ("ece", lambda run: run["stages"]["by-ece"]["ece"]),
    "T": ("temperature", lambda run: run["parameters"]["temperature"]),
    "ECE after T %": ("ece", lambda run: run["stages"]["temperature"]["ece"]),
    "NLL after T": ("nll", lambda run: run["stages"]["temperature"]["nll"]),
    "norm of the last layer": ("temperature", lambda run: list(run["norms"].values())[-1]),
    "training accuracy %": ("error", lambda run: run["train_accuracy"]),
}
SOUGHT = {"T": "temperature", BY_ECE: "ece_temperature"}
"""The columns whose numbers a search found, and the names of these."""
_MAIN = {"cross-entropy": "cross-entropy", "focal-3": "focal, γ = 3", "sample-focal": "FLSD-53"}
_LOST = "‡"
"""Marks what contains a run that hardly learned."""


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    balanced = {way: arms_of(numbers, way) for way in TITLES}
    tail = {way: arms_of(tail_of(numbers), way) for way in TITLES}
    arms = [*_arms(balanced), *_arms(tail)]
    done = _runs(arms)
    per_run = numbers["cpu_seconds"] / done
    tables, tail_tables = (_tables(part) for part in (balanced, tail))
    tried = {key for arms_of_way in balanced.values() for key in arms_of_way}
    found = {claim.key: claim for claim in claims(numbers)}
    return {
        **usual_words(numbers, done, [*found.values()], {}),
        "on_bound": on_bounds.note(*SOUGHT.values())
        if on_bounds.ON_BOUND in "".join([*tables.values(), *tail_tables.values()])
        else "",
        **_not_run({"balanced": balanced, "long-tailed": tail}, numbers, per_run),
        "ways": _ways_table(),
        "titles": TITLES,
        "tables": tables,
        "tail_tables": tail_tables,
        "tail_runs": _runs(_arms(tail)),
        "absent": [arm.title for arm in LOSSES.arms if arm.key not in tried],
        "equal": _at_equal_steps(found),
        "tail_equal": _at_equal_steps(found, f", {TAIL}"),
        "share": share_of_length(balanced),
        "tail_share": share_of_length(tail),
        "by_way": _temperatures(balanced),
        "lost": [
            f"{arm.title} with *{TITLES[way]}*{images} ({runs})"
            for images, part in (("", balanced), (f" on the {TAIL}", tail))
            for way, arms_of_way in part.items()
            for arm in arms_of_way.values()
            if (runs := _hardly_learned(arm))
        ],
        "lost_mark": _LOST,
        "long": _of_focal(balanced[LONG], balanced[SUM]),
        "light": _of_focal(balanced[LIGHT], balanced[SUM]),
        "summed": _of_focal(balanced[SUM], balanced[SUM]),
        "of_fcl": OF_FCL,
    }


def _arms(ways: Ways) -> list[ArmRuns]:
    return [arm for arms in ways.values() for arm in arms.values()]


def _runs(arms: Iterable[ArmRuns]) -> int:
    return sum(len(arm.runs) for arm in arms)


_, _error = COLUMNS["error %"]
_, _temperature = COLUMNS["T"]


def _not_run(parts: Mapping[str, Ways], numbers: Mapping[str, Any], per_run: float) -> dict[str, Any]:
    """What is left of the grid, and what its balanced part would cost with a ResNet.

    A part has a run of every seed for each loss of each way that has begun.
    """
    arms_of_images = {images: _arms(ways) for images, ways in parts.items()}
    left = {images: len(arms) * numbers["seeds"] - _runs(arms) for images, arms in arms_of_images.items()}
    said = [
        f"{runs} runs on {images} images ({runs * per_run / 3600:.1f} CPU hours)"
        for images, runs in left.items()
        if runs
    ]
    cells = len(arms_of_images["balanced"])
    return {
        "left": " and ".join(said) or "nothing of the grid",
        "cells": cells,
        "resnet_hours": RESNET_HOURS,
        "resnet_grid": cells * RESNET_HOURS,
    }


def _ways_table() -> str:
    rows = [[way.title, f"{way.rate:g}", f"{way.clip:g}", f"{way.decay:g}", way.why] for way in WAYS]
    return table(["way", "learning rate", "gradients clipped at", "weight decay", "what for"], rows)


def _at_equal_steps(found: Mapping[str, Claim], where: str = "") -> dict[str, list[Claim]]:
    """The claims on each number where gradients are of one length."""
    return {
        name: [found[key] for way, _ in EQUAL_STEPS if (key := f"{equal_steps(way, name)}{where}") in found]
        for name in ("temperature", "ece")
    }


def share_of_length(ways: Ways) -> Mean | None:
    """How much of the difference in T between the losses goes where cross-entropy is slowed, seed by seed."""
    arms = [ways[MEAN].get("cross-entropy"), ways[SLOW].get("cross-entropy"), ways[MEAN].get("focal-3")]
    known = shared(*each) if len(each := [arm for arm in arms if arm]) == len(arms) else []
    if not known or not known[0].runs:
        return None
    temperatures = [[_temperature(arm.runs[seed]) for arm in known] for seed in known[0].runs]
    return mean_of([(usual - slow) / (usual - other) for usual, slow, other in temperatures])


def _hardly_learned(arm: ArmRuns) -> str:
    """The runs of an arm that hardly learned, with their errors; empty without any."""
    lost = {seed: _error(run) for seed, run in arm.runs.items() if _error(run) > HARDLY_LEARNED}
    return ", ".join(f"seed {seed}: {100 * error:.0f} %" for seed, error in lost.items())


def _lost(arm: ArmRuns) -> str:
    """The mark, if a run of the arm hardly learned."""
    return f" {_LOST}" if _hardly_learned(arm) else ""


def _temperatures(by_way: Ways) -> str:
    """The temperature that each way ends with, of those that both losses have."""
    rows = [
        [TITLES[way], *(_cell(arms[key], "T") + _lost(arms[key]) if key in arms else "" for key in _MAIN)]
        for way, arms in by_way.items()
        if any(key in arms for key in _MAIN)
    ]
    return table(["way", *("after " + name for name in _MAIN.values())], rows)


def _of_focal(arms: Mapping[str, ArmRuns], summed: Mapping[str, ArmRuns]) -> dict[str, Any] | None:
    """Error, by how much it exceeds the sum's, and last norm after focal loss with γ = 3."""
    arm, other = arms.get("focal-3"), summed.get("focal-3")
    if arm is None or other is None:
        return None
    _, norm = COLUMNS["norm of the last layer"]
    return {
        "error": arm.mean(_error),
        "errors": ", ".join(f"{100 * _error(run):.1f}" for run in arm.runs.values()),
        "more": difference(arm, other, _error),
        "norm": arm.mean(norm),
    }


def _cell(arm: ArmRuns, title: str) -> str:
    name, pick = COLUMNS[title]
    mean = arm.mean(pick)
    text = shown(on_grid(mean) if title == BY_ECE else mean, name).removesuffix(" %")
    return text + (on_bounds.mark(SOUGHT[title], map(pick, arm.runs.values())) if title in SOUGHT else "")


def _tables(ways: Ways) -> dict[str, str]:
    """A table of each way's losses, by the way's title."""
    return {TITLES[way]: _table(arms) for way, arms in ways.items() if arms}


def _table(arms: Mapping[str, ArmRuns]) -> str:
    rows = [
        [arm.title + _lost(arm), str(len(arm.runs)), *(_cell(arm, title) for title in COLUMNS)]
        for arm in arms.values()
    ]
    return table(["loss", "n", *COLUMNS], rows)
