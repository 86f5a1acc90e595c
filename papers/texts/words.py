"""The tables of the page on texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from papers.arms import ArmRuns
from papers.paired import FEWEST_SEEDS, claims_table, tally_sentence
from papers.printed_rows import epochs_table, falls, fitted_table, growth
from papers.texts.claims import claims
from papers.texts.numbers import arms_of
from papers.texts.settings import SETTINGS, Setting


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    found = claims(numbers)
    return {
        "rows": {each.key: _row(numbers, each) for each in SETTINGS},
        "hours": sum(run["cpu_seconds"] for run in numbers["runs"]) / 3600,
        "fewest": FEWEST_SEEDS,
        "counted": tally_sentence(found),
        "claim_table": claims_table(found),
    }


def _row(numbers: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    arms = arms_of(numbers, setting)
    runs = [run for arm in arms.values() for run in arm.runs.values()]
    wanted = numbers["seeds"] * len(setting.row.losses)
    minutes = sum(run["cpu_seconds"] for run in runs) / 60 / len(runs) if runs else None
    return {
        "title": setting.title,
        "done": len(runs),
        "wanted": wanted,
        "minutes": minutes,
        "left_hours": None if minutes is None else (wanted - len(runs)) * minutes / 60,
        "absent": [loss.title for loss in setting.row.losses if loss.key not in arms],
        "table": setting.row.beside(arms, numbers["published"][setting.key]),
        "fitted": fitted_table(arms),
        "harmed": [
            arm.title
            for arm in arms.values()
            if arm.metric("temperature", "ece").value > arm.metric("before", "ece").value
        ],
        "epochs": epochs_table(arms, setting.epochs),
        "growth": growth(arms),
        "falls": falls(arms),
        "trained": _trained(arms),
        "last": sum(run["kept_epoch"] == len(run["accuracies"]) for run in runs),
    }


def _trained(arms: Mapping[str, ArmRuns]) -> str:
    """The share of training texts that networks get right while they train, in the last epoch, by loss."""
    found = {arm.title: arm.mean(lambda run: run["train_accuracy"]) for arm in arms.values()}
    return ", ".join(f"{title} {100 * each.value:.0f}" for title, each in found.items())
