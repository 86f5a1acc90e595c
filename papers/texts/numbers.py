"""What the runs on texts show, by row and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from papers.arms import ArmRuns, Run
from papers.texts.settings import SETTINGS, Setting, setting_of

Numbers = Mapping[str, Any]
_FOUND = (
    "seed",
    "cpu_seconds",
    "train_accuracy",
    "kept_epoch",
    "accuracies",
    "temperatures",
    "stages",
    "parameters",
)


def numbers_of(runs: Sequence[Run], also: Mapping[str, Any]) -> dict[str, Any]:
    """The runs by row, loss and seed, and the printed numbers of the rows."""
    found = [
        {**{name: run[name] for name in _FOUND}, "setting": setting.key, "loss": setting.loss_of(run)}
        for run in runs
        for setting in (setting_of(run),)
    ]
    order = [(each.key, loss.key) for each in SETTINGS for loss in each.row.losses]
    return {
        **also,
        "runs": sorted(found, key=lambda run: (order.index((run["setting"], run["loss"])), run["seed"])),
        "published": {each.key: each.row.facts() for each in SETTINGS},
    }


def arms_of(numbers: Numbers, setting: Setting) -> dict[str, ArmRuns]:
    """The losses with finished runs on some texts, by key."""
    return setting.row.arms({**run, "norms": {}} for run in numbers["runs"] if run["setting"] == setting.key)
