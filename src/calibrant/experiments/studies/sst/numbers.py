"""What the runs of SST show, by convention and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.experiments.arms import ArmRuns, Run
from calibrant.experiments.claims import sides_exchanged
from calibrant.experiments.printed_rows import by_place
from calibrant.experiments.studies.sst.settings import CONVENTIONS, LOSSES, ROW

Numbers = Mapping[str, Any]
_FOUND = ("seed", "cpu_seconds", "train_accuracy", "kept_epoch", "temperatures", "conventions")


def numbers_of(runs: Sequence[Run], also: Mapping[str, Any]) -> dict[str, Any]:
    """The runs by loss and seed, and the printed numbers of the row."""
    keys = {loss.text: loss.key for loss in LOSSES}
    order = [*keys.values()]
    found = [{**{name: run[name] for name in _FOUND}, "loss": keys[run["loss"]]} for run in runs]
    return {
        **also,
        "runs": sorted(found, key=lambda run: (order.index(run["loss"]), run["seed"])),
        "published": ROW.facts(),
    }


def arms_of(numbers: Numbers, convention: str) -> dict[str, ArmRuns]:
    """The losses with finished runs, by key, under a convention."""
    found: dict[str, dict[int, Any]] = {}
    for run in numbers["runs"]:
        judged = run["conventions"][convention]
        found.setdefault(run["loss"], {})[run["seed"]] = {**run, **judged, "norms": {}}
    return {
        loss.key: ArmRuns(key=loss.key, title=loss.title, runs=dict(sorted(found[loss.key].items())))
        for loss in LOSSES
        if loss.key in found
    }


def swapped(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two losses, or of the two conventions, exchanged."""
    if first in CONVENTIONS:
        return sides_exchanged(numbers, first, second)
    partner = {first: second, second: first}
    return {
        **numbers,
        "runs": [{**run, "loss": partner.get(run["loss"], run["loss"])} for run in numbers["runs"]],
    }


def distances(numbers: Numbers, convention: str, column: int) -> dict[str, float]:
    """How far our number is from the published one, by loss, for every loss that both have."""
    arms, theirs = arms_of(numbers, convention), by_place(numbers["published"])
    return {
        key: abs(ROW.ours(arm, column).value - float(theirs[column, key]["value"]))
        for key, arm in arms.items()
        if (column, key) in theirs
    }


def ratios(numbers: Numbers, convention: str, gamma: float) -> list[float]:
    """Focal loss's temperature over cross-entropy's, seed by seed."""
    arms = arms_of(numbers, convention)
    plain, focal = (arms.get(key) for key in ("cross-entropy", f"focal-{gamma:g}"))
    if plain is None or focal is None:
        return []
    return [
        focal.runs[seed]["parameters"]["temperature"] / run["parameters"]["temperature"]
        for seed, run in plain.runs.items()
        if seed in focal.runs
    ]


def ratios_at(numbers: Numbers, epoch: int, gamma: float) -> list[float]:
    """The same on the held-out sentences after an epoch, renormalised."""
    arms = arms_of(numbers, "renormalised")
    plain, focal = (arms.get(key) for key in ("cross-entropy", f"focal-{gamma:g}"))
    if plain is None or focal is None:
        return []
    return [
        focal.runs[seed]["temperatures"][epoch - 1] / run["temperatures"][epoch - 1]
        for seed, run in plain.runs.items()
        if seed in focal.runs
    ]
