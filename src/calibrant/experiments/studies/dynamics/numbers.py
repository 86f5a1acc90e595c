"""What the runs of the study of dynamics show: courses by way and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant.experiments.claims import exchanged
from calibrant.experiments.kept_runs import shortened
from calibrant.experiments.matching import matches
from calibrant.experiments.result import RunResult
from calibrant.experiments.studies.dynamics.settings import (
    EPOCHS,
    HELD_OUT,
    LOSSES,
    START,
    TITLES,
    TRAINING,
    WAYS,
)
from calibrant.experiments.studies.losses.numbers import DIGITS, ArmRuns, Pick, Run
from calibrant.experiments.studies.losses.paired import USUAL, arms_among, by_seed

Numbers = Mapping[str, Any]
_WHERE = {**USUAL, "data.train": 10000, "training.epochs": EPOCHS}


def numbers_of(results: Sequence[RunResult], *, wanted: int) -> dict[str, Any]:
    """The results file.

    Args:
        results: Finished trainings, among them those of the grid.
        wanted: How many runs the grid has.
    """
    mine = [
        each
        for each in results  # earlier versions recorded less after each epoch
        if matches(each.settings, _WHERE) and f"calibration_{HELD_OUT[0]}" in each.rows[-1]
    ]
    found = {
        way: {
            key: by_seed(each for each in mine if matches(each.settings, {"reduction": way, "loss": loss}))
            for key, (loss, _) in LOSSES.items()
        }
        for way in WAYS
    }
    ways = [{"way": way, "arms": _arms(arms)} for way, arms in found.items()]
    seconds = sum(each.cpu_seconds for arms in found.values() for runs in arms.values() for each in runs)
    numbers = {"wanted": wanted, "cpu_seconds": seconds, "ways": [way for way in ways if way["arms"]]}
    return shortened(numbers, DIGITS)


def _arms(found: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    return [{"arm": key, "runs": [_run(each) for each in runs]} for key, runs in found.items() if runs]


def _run(result: RunResult) -> dict[str, Any]:
    rows = result.rows
    followed = {str(row["epoch"]): row["dynamics"]["train"] for row in rows if "dynamics" in row}
    found: dict[str, Any] = {
        "seed": result.settings["seed"],
        "held_out": {name: [row[f"calibration_{name}"] for row in rows] for name in HELD_OUT},
        "norms": [row["last_layer_norm"] for row in rows],
    }
    if "gradient_norms" in result.more and followed:
        found |= {
            "train": {epoch: {name: each[name] for name in TRAINING} for epoch, each in followed.items()},
            "gradient_norms": {epoch: each["mean"] for epoch, each in result.more["gradient_norms"].items()},
        }
    return found


def arms_of(numbers: Numbers, way: str) -> dict[str, ArmRuns]:
    """The losses of a way, by key."""
    rows = next((each["arms"] for each in numbers["ways"] if each["way"] == way), [])
    return arms_among(rows, TITLES)


def followed(arm: ArmRuns | None) -> ArmRuns | None:
    """Those of its runs whose training images were measured, too; None without any."""
    if arm is None:
        return None
    runs = {seed: run for seed, run in arm.runs.items() if "train" in run}
    return replace(arm, runs=runs) if runs else None


def at(name: str, epoch: int) -> Pick:
    """A number of held-out images after an epoch."""
    return lambda run: run["held_out"][name][epoch - 1]


def change(name: str, first: int, last: int = EPOCHS) -> Pick:
    """How much a number of held-out images changes from one epoch to another."""
    before, after = at(name, first), at(name, last)
    return lambda run: after(run) - before(run)


def train_change(name: str) -> Pick:
    """The same of training images, after the drop."""
    return lambda run: run["train"][str(EPOCHS)][name] - run["train"][str(START)][name]


def share_of(group: str, first: int, last: int = EPOCHS) -> Pick:
    """What the right, or the wrong, images add to the change of the mean NLL of all held-out ones."""

    def part_of(run: Run, epoch: int) -> float:
        error = at("error", epoch)(run)
        return (error if group == "incorrect" else 1 - error) * at(f"nll_{group}", epoch)(run)

    return lambda run: part_of(run, last) - part_of(run, first)


def swapped(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two losses exchanged, in every way that has both."""
    ways = [
        {**way, "arms": exchanged(way["arms"], "arm", first, second)}
        if {first, second} <= {row["arm"] for row in way["arms"]}
        else way
        for way in numbers["ways"]
    ]
    return {**numbers, "ways": ways}
