"""What the intervals are to hold, against the shares that were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from papers.claims import OWN, Claim, Verdict, all_of
from papers.coverage.settings import (
    AIMED_AT,
    LEAST_COVERAGE,
    MEAN_ALARMS,
    MEAN_COVERAGE,
    MOST_ALARMS,
)

TITLES = {
    "ece": "ECE",
    "classwise_ece": "class-wise ECE",
    "smce": "smCE",
    "adaptive_ece": "adaptive ECE",
    "l2_ece": "L2 ECE",
    "mce": "MCE",
    "kolmogorov_smirnov": "KS error",
    "over_confidence_error": "over-confidence error",
    "under_confidence_error": "under-confidence error",
    "smooth_ece": "smECE",
}
Cell = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share of so many sets."""

    value: float
    sets: int

    def ends(self, looks: int = 1) -> tuple[float, float]:
        """Wilson's 95 % interval, widened for so many looks."""
        from calibrant.evaluation.resampling.intervals import wilson_interval

        return wilson_interval(self.value, self.sets, 1 - 0.05 / looks)

    def at_least(self, limit: float, looks: int = 1) -> Verdict:
        """Whether the true share is at least this, by the interval; not, by the one for so many looks."""
        if self.ends()[0] >= limit:
            return "holds"
        return "does not hold" if self.ends(looks)[1] < limit else "undecided"

    def at_most(self, limit: float, looks: int = 1) -> Verdict:
        """Whether the true share is at most this, by the interval; not, by the one for so many looks."""
        if self.ends()[1] <= limit:
            return "holds"
        return "does not hold" if self.ends(looks)[0] > limit else "undecided"

    def __str__(self) -> str:
        low, high = self.ends()
        return f"{self.value:.3f} ({low:.3f}–{high:.3f})"


def pooled(shares: Sequence[Share]) -> Share:
    """All sets together."""
    sets = sum(each.sets for each in shares)
    return Share(value=sum(each.value * each.sets for each in shares) / sets, sets=sets)


def over_cells(shares: Sequence[Share]) -> Share:
    """The mean over cells, each counting alike; as exact as with ``sets`` dealt out evenly."""
    if len({each.sets for each in shares}) == 1:
        return pooled(shares)
    sets = round(len(shares) ** 2 / sum(1 / each.sets for each in shares))
    return Share(value=sum(each.value for each in shares) / len(shares), sets=sets)


def calibrated(numbers: Mapping[str, Any]) -> list[Cell]:
    """The cells whose predictions state the truth."""
    return [cell for cell in numbers["cells"] if cell["scale"] == 1 or cell["stated"] == "the truth"]


def coverage(numbers: Mapping[str, Any], key: str) -> list[Share]:
    """How often the intervals of an error cover, cell by cell."""
    return [covered(cell, key) for cell in numbers["cells"] if key in cell["errors"]]


def mean_coverage(numbers: Mapping[str, Any], key: str) -> Share:
    """How often they cover, as a mean over cells: on the sets that have intervals."""
    found = [cell["errors"][key] for cell in numbers["cells"] if key in cell["errors"]]
    return over_cells([Share(value=each["covered"], sets=each["sets"]) for each in found])


def covered(cell: Cell, key: str) -> Share:
    """How often the interval of an error covers in a cell.

    Where the truth is stated the true error is zero, which an interval covers unless the error counts as
    real: there the sets judged without intervals count, too.
    """
    error = cell["errors"][key]
    found = Share(value=error["covered"], sets=error["sets"])
    further = _further(cell, key)
    return found if further is None else pooled([found, Share(value=1 - further.value, sets=further.sets)])


def gate_alarms(cells: Sequence[Cell], key: str) -> list[Share]:
    """How often an error is called real, cell by cell."""
    found: list[Share] = []
    for cell in cells:
        if (error := cell["errors"].get(key)) is not None:
            further = _further(cell, key)
            shares = [Share(value=error["real"], sets=error["sets"])]
            found.append(pooled(shares if further is None else [*shares, further]))
    return found


def verdict_alarms(cells: Sequence[Cell]) -> list[Share]:
    """How often any part of the verdict fails, cell by cell."""
    found: list[Share] = []
    for cell in cells:
        shares = [Share(value=cell["verdict"]["alarms"], sets=cell["sets"])]
        if further := cell.get("further"):
            shares.append(Share(value=further["verdict"] / further["sets"], sets=further["sets"]))
        found.append(pooled(shares))
    return found


def _further(cell: Cell, key: str) -> Share | None:
    """The sets judged without intervals: how often an error is called real."""
    further = cell.get("further")
    if further is None or key not in further["real"]:
        return None
    return Share(value=further["real"][key] / further["sets"], sets=further["sets"])


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim, in the order of the page."""
    cells = calibrated(numbers)
    found: list[Claim] = []
    for key in AIMED_AT:
        if shares := coverage(numbers, key):
            found += _covers(key, shares, mean_coverage(numbers, key))
    for key in AIMED_AT:
        if shares := gate_alarms(cells, key):
            found += _alarms(f"gate-{key}", f"the gate on the {TITLES[key]}", shares)
    if cells:
        found += _alarms("verdict", "the verdict", verdict_alarms(cells))
    return [*found, _agrees(numbers)]


def _covers(key: str, shares: Sequence[Share], mean: Share) -> list[Claim]:
    title, worst = TITLES[key], min(shares, key=lambda each: each.value)
    each_cell: list[Verdict] = [each.at_least(LEAST_COVERAGE, len(shares)) for each in shares]
    return [
        Claim(
            key=f"every-{key}",
            source=OWN,
            statement=f"The interval of the {title} covers in at least {LEAST_COVERAGE:g} of the sets of "
            "every cell",
            verdict=all_of(each_cell),
            evidence=f"the lowest of {len(shares)} cells is {worst} of {worst.sets:,} sets; "
            + _counts(each_cell, sum(each.value >= LEAST_COVERAGE for each in shares)),
        ),
        Claim(
            key=f"average-{key}",
            source=OWN,
            statement=f"The interval of the {title} covers in at least {MEAN_COVERAGE:g} of all sets",
            verdict=mean.at_least(MEAN_COVERAGE),
            evidence=f"it covers in {mean} of {mean.sets:,} sets",
        ),
    ]


def _alarms(key: str, who: str, shares: Sequence[Share]) -> list[Claim]:
    mean, worst = pooled(shares), max(shares, key=lambda each: each.value)
    each_cell: list[Verdict] = [each.at_most(MOST_ALARMS, len(shares)) for each in shares]
    return [
        Claim(
            key=f"every-{key}",
            source=OWN,
            statement=f"Where the truth is stated, {who} raises an alarm in at most {MOST_ALARMS:g} of the "
            "sets of every cell",
            verdict=all_of(each_cell),
            evidence=f"the highest of {len(shares)} cells is {worst} of {worst.sets:,} sets; "
            + _counts(each_cell, sum(each.value <= MOST_ALARMS for each in shares)),
        ),
        Claim(
            key=f"average-{key}",
            source=OWN,
            statement=f"Where the truth is stated, {who} raises an alarm in at most {MEAN_ALARMS:g} of all "
            "sets",
            verdict=mean.at_most(MEAN_ALARMS),
            evidence=f"it does in {mean} of {mean.sets:,} sets",
        ),
    ]


def _counts(verdicts: Sequence[Verdict], kept: int) -> str:
    counts = {name: verdicts.count(name) for name in ("holds", "undecided", "does not hold")}
    return (
        f"{kept} cells keep the aim as measured; by their intervals {counts['holds']} keep it, "
        f"{counts['undecided']} may not, {counts['does not hold']} miss it"
    )


def _agrees(numbers: Mapping[str, Any]) -> Claim:
    each = [error for cell in numbers["cells"] for error in cell["errors"].values()]
    apart = pooled([Share(value=one["disagree"], sets=one["sets"]) for one in each])
    return Claim(
        key="agrees",
        source=OWN,
        statement="An interval leaves out zero exactly where the error counts as real",
        verdict="does not hold" if apart.value else "holds",
        evidence=f"they disagree in {round(apart.value * apart.sets):,} of {apart.sets:,} intervals of all "
        "errors and cells",
    )
