"""One loss held against another by a metric: what a claim of the study of losses usually is."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from calibrant._math.means import Mean, plus_minus
from papers.arms import ArmRuns, Pick, difference, shared
from papers.claims import Claim, above, below
from papers.losses.numbers import BY_ADAPTIVE_ECE, BY_ECE, TITLES

Arms: TypeAlias = Mapping[str, ArmRuns]

WITHOUT_UNIT = {"nll", "temperature", "norm"}
WHEN: Mapping[str, str] = {
    "before": "before temperature scaling",
    BY_ECE: "after temperature scaling (T by ECE)",
    BY_ADAPTIVE_ECE: "after temperature scaling (T by adaptive ECE)",
    "temperature": "after temperature scaling (T by likelihood)",
}
"""The stages as statements name them."""


def shown(found: Mean, name: str, *, signed: bool = False) -> str:
    """The mean of a metric with its unit, if it has one.

    Example:
        >>> shown(Mean(value=0.031, half_width=0.002, n=3), "ece")
        '3.10 ± 0.20 %'
        >>> shown(Mean(value=0.5, half_width=None, n=1), "nll")
        '0.500'
    """
    if name in WITHOUT_UNIT:
        return plus_minus(found, 3, signed=signed)
    return f"{plus_minus(found, 2, 100, signed=signed)} %"


@dataclass(frozen=True)
class Below:
    """The claim that a metric of one arm lies below another's, by the interval of their paired difference.

    It is asked where every run of both arms has the stage.
    """

    key: str
    source: str
    statement: str
    """May name the two arms, the metric and the stage in braces."""
    first: str
    second: str
    stage: str
    name: str
    pick: Pick | None = None
    """Picks what is no metric of a stage from a run."""
    above: bool = False
    """Whether the first arm's is claimed to be the higher one."""

    def __call__(self, arms: Arms) -> Iterator[Claim]:
        """The claim, if it can be asked of these arms."""
        if self.first not in arms or self.second not in arms:
            return
        first, second = arms[self.first], arms[self.second]
        pick = self.pick or metric_of(self.stage, self.name)
        if self.pick is None and not all(has(arm, self.stage, self.name) for arm in (first, second)):
            return
        found = difference(first, second, pick)
        if found is None:
            return
        values = "; ".join(
            f"{arm.title}: {shown(arm.mean(pick), self.name)}" for arm in shared(first, second)
        )
        yield Claim(
            key=self.key,
            source=self.source,
            statement=self.statement.format(
                first=first.title, second=second.title, metric=metric_words(self.name), when=WHEN[self.stage]
            ),
            verdict=above(found) if self.above else below(found),
            evidence=f"{values}; difference {shown(found, self.name, signed=True)}, n = {found.n}",
            arms=(self.first, self.second),
        )


def has(arm: ArmRuns, stage: str, name: str = "nll") -> bool:
    """Whether every run of the arm has a metric of the stage; by default one that every stage has."""
    return all(name in run["stages"].get(stage, {}) for run in arm.runs.values())


def metric_of(stage: str, name: str) -> Pick:
    """Reads a metric of a stage off a run."""
    return lambda run: run["stages"][stage][name]


def mean_over(stage: str, name: str, part: slice) -> Pick:
    """Reads the mean of a number of each class, over some classes, off a run."""
    return lambda run: statistics.fmean(run["classes"][stage][name][part])


def metric_words(name: str) -> str:
    """A metric's name within a sentence."""
    title = TITLES.get(name, name)
    return title if title[:2].isupper() else title[0].lower() + title[1:]
