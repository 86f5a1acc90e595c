"""What the runs of SST show, by convention and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.experiments.arms import ArmRuns, Pick, Run
from calibrant.experiments.claims import sides_exchanged
from calibrant.experiments.printed_rows import by_place, losses_exchanged
from calibrant.experiments.studies.sst.settings import CONVENTIONS, LOSSES, RENORMALISED, ROW

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
    return ROW.arms({**run, **run["conventions"][convention], "norms": {}} for run in numbers["runs"])


def swapped(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two losses, or of the two conventions, exchanged."""
    if first in CONVENTIONS:
        return sides_exchanged(numbers, first, second)
    return losses_exchanged(numbers, first, second)


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
    return _ratios(arms_of(numbers, convention), gamma, lambda run: run["parameters"]["temperature"])


def ratios_at(numbers: Numbers, epoch: int, gamma: float) -> list[float]:
    """The same on the held-out sentences after an epoch, renormalised."""
    return _ratios(arms_of(numbers, RENORMALISED), gamma, lambda run: run["temperatures"][epoch - 1])


def _ratios(arms: Mapping[str, ArmRuns], gamma: float, temperature: Pick) -> list[float]:
    plain, focal = (arms.get(key) for key in ("cross-entropy", f"focal-{gamma:g}"))
    if plain is None or focal is None:
        return []
    return [
        temperature(focal.runs[seed]) / temperature(run)
        for seed, run in plain.runs.items()
        if seed in focal.runs
    ]
