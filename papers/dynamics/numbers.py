"""What the runs of the study of dynamics show: courses by way and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant_lab.sweep.matching import matches
from calibrant_lab.sweep.result import RunResult
from papers.arms import ArmRuns, Pick, Run, arms_where, runs_by_arm
from papers.dynamics.settings import (
    EPOCHS,
    HELD_OUT,
    LOSSES,
    TITLES,
    TRAINING,
    WAYS,
)

Numbers = Mapping[str, Any]
_FOUND = ("held_out", "norms", "train", "gradient_norms")


def kept_of(result: RunResult) -> dict[str, Any] | None:
    """The course of a run's numbers; None for runs of earlier versions, which recorded less per epoch."""
    rows = result.rows
    if f"calibration_{HELD_OUT[0]}" not in rows[-1]:
        return None
    followed = {str(row["epoch"]): row["dynamics"]["train"] for row in rows if "dynamics" in row}
    found: dict[str, Any] = {
        "cpu_seconds": result.cpu_seconds,
        "held_out": {name: [row[f"calibration_{name}"] for row in rows] for name in HELD_OUT},
        "norms": [row["last_layer_norm"] for row in rows],
    }
    if "gradient_norms" in result.more and followed:
        found |= {
            "train": {epoch: {name: each[name] for name in TRAINING} for epoch, each in followed.items()},
            "gradient_norms": {epoch: each["mean"] for epoch, each in result.more["gradient_norms"].items()},
        }
    return found


def numbers_of(runs: Sequence[Run], also: Mapping[str, Any]) -> dict[str, Any]:
    """The runs by way and loss, and what they took."""
    losses = {key: {"loss": loss} for key, (loss, _) in LOSSES.items()}
    found = {way: [run for run in runs if matches(run, {"reduction": way})] for way in WAYS}
    return {
        **also,
        "cpu_seconds": sum(run["cpu_seconds"] for run in runs),
        "ways": [{"way": way, "arms": runs_by_arm(own, losses, _FOUND)} for way, own in found.items() if own],
    }


def arms_of(numbers: Numbers, way: str) -> dict[str, ArmRuns]:
    """The losses of a way, by key."""
    return arms_where(numbers["ways"], "way", way, TITLES)


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


def train_change(name: str, first: int) -> Pick:
    """The same of training images, to the last epoch."""
    return lambda run: run["train"][str(EPOCHS)][name] - run["train"][str(first)][name]


def share_of(group: str, first: int) -> Pick:
    """What the right, or the wrong, images add to the change of the mean NLL of all held-out ones."""

    def part_of(run: Run, epoch: int) -> float:
        error = at("error", epoch)(run)
        return (error if group == "incorrect" else 1 - error) * at(f"nll_{group}", epoch)(run)

    return lambda run: part_of(run, EPOCHS) - part_of(run, first)
