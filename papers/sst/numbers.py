"""What the runs of SST show, by convention and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from papers.arms import ArmRuns, Run, shared
from papers.claims import sides_exchanged
from papers.printed_rows import SCALE, by_place, losses_exchanged
from papers.sst.settings import CONVENTIONS, LOSSES, RENORMALISED, ROW, STAGES

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
    """The numbers with the results of two losses, of two stages or of the two conventions exchanged."""
    if first in CONVENTIONS or first in STAGES:
        return sides_exchanged(numbers, first, second)
    return losses_exchanged(numbers, first, second)


def distances(numbers: Numbers, convention: str, column: int) -> tuple[int, list[float]]:
    """How many losses have published numbers, and how far ours are from them on average, seed by seed."""
    arms, theirs = arms_of(numbers, convention), by_place(numbers["published"])
    both = [arm for key, arm in arms.items() if (column, key) in theirs]
    stage, metric = ROW.tables[column].ours
    gaps = [
        [
            abs(SCALE * run["stages"][stage][metric] - float(theirs[column, arm.key]["value"]))
            for run in arm.runs.values()
        ]
        for arm in (shared(*both) if both else [])
    ]
    return len(gaps), [fmean(of_seed) for of_seed in zip(*gaps, strict=True)]


def ratios(numbers: Numbers, convention: str, gamma: float, name: str = "temperature") -> list[float]:
    """Focal loss's temperature over cross-entropy's at the epochs that are kept, seed by seed."""
    return [
        focal["parameters"][name] / plain["parameters"][name]
        for focal, plain in _pairs(arms_of(numbers, convention), gamma)
    ]


def ratios_at(numbers: Numbers, gamma: float, epoch: int | None = None) -> list[float]:
    """The same after one epoch of both, by default the one that is kept for focal loss.

    Of held-out sentences, renormalised, by likelihood.
    """
    found: list[float] = []
    for focal, plain in _pairs(arms_of(numbers, RENORMALISED), gamma):
        place = (epoch or focal["kept_epoch"]) - 1
        found.append(focal["temperatures"][place] / plain["temperatures"][place])
    return found


def num_epochs(numbers: Numbers) -> int:
    """How long was trained."""
    return len(numbers["runs"][0]["temperatures"])


def _pairs(arms: Mapping[str, ArmRuns], gamma: float) -> list[tuple[Run, Run]]:
    """Focal loss's runs with those of cross-entropy of the same seeds."""
    plain, focal = (arms.get(key) for key in ("cross-entropy", f"focal-{gamma:g}"))
    if plain is None or focal is None:
        return []
    return [(focal.runs[seed], run) for seed, run in plain.runs.items() if seed in focal.runs]
