"""How much lower a measure is after one calibrator than after another, and whether chance can explain it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from papers.calibrators.numbers import means_of, pair_name
from papers.calibrators.settings import FOCAL, PLAIN
from papers.claims import Verdict

LEVEL = 0.05


@dataclass(frozen=True)
class Gain:
    """A fall of a measure on one file, as a mean over the divisions, with its standard error over samples."""

    value: float
    error: float

    @property
    def p_value(self) -> float:
        """Against no difference: two-sided, normal.

        Example:
            >>> round(Gain(1.96, 1.0).p_value, 3), Gain(0.0, 0.0).p_value
            (0.05, 1.0)
        """
        if self.error == 0:
            return 1.0 if self.value == 0 else 0.0
        return math.erfc(abs(self.value) / self.error / math.sqrt(2))


def gain(numbers: Mapping[str, Any], file: str, measure: str, first: str, second: str) -> Gain | None:
    """How much lower a measure is after the second calibrator than after the first.

    For temperature and focal temperature scaling the standard error is the larger of two: with the fits as
    they are, and with both fitted again to each resample.
    """
    found = numbers["files"][file]
    before, after = (means_of(found, name).get(measure) for name in (first, second))
    error = found["errors"].get(pair_name(first, second), {}).get(measure)
    if before is None or after is None or error is None:
        return None
    if {first, second} == {PLAIN, FOCAL}:
        error = max(error, numbers["exponent"][file]["refit_errors"][measure])
    return Gain(before - after, error)


def gain_without_zeros(numbers: Mapping[str, Any], file: str, measure: str, first: str) -> Gain | None:
    """What focal temperature scaling gains, without samples whose true class has a probability of zero."""
    floors = numbers["exponent"][file]["floors"]
    if not floors:
        return gain(numbers, file, measure, first, FOCAL)
    found = floors[-1]["over"][first][measure]
    error = found["error"] if first != PLAIN else max(found["error"], floors[-1]["refit_errors"][measure])
    return Gain(found["gain"], error)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: the chance of any false alarm among them all stays below the level.

    References:
        Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics
        1979.

    Example:
        >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
        [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


@dataclass(frozen=True)
class Sides:
    """How many gains of a family are above zero beyond noise, below it, and neither; Holm at .05."""

    above: int
    below: int
    all: int

    @property
    def neither(self) -> int:
        """How many chance can explain."""
        return self.all - self.above - self.below

    @property
    def verdict(self) -> Verdict:
        """Of the claim that they are above zero wherever they are not zero.

        Example:
            >>> Sides(above=2, below=1, all=9).verdict, Sides(above=2, below=0, all=9).verdict
            ('mixed', 'holds')
        """
        if self.above and self.below:
            return "mixed"
        return "holds" if self.above else "does not hold" if self.below else "undecided"


def adjusted(gains: Mapping[Any, Gain | None]) -> dict[Any, float]:
    """Adjusted p-values of a family, by the gains' names; a gain that is not known has p = 1."""
    p_values = holm([1.0 if each is None else each.p_value for each in gains.values()])
    return dict(zip(gains, p_values, strict=True))


def sides(gains: Mapping[Any, Gain | None], p_values: Mapping[Any, float] | None = None) -> Sides:
    """The sides of gains, by the adjusted p-values of these or of the larger family that they belong to.

    Example:
        >>> sides({"a": Gain(1.0, 0.1), "b": Gain(-1.0, 0.1), "c": Gain(0.1, 0.1)})
        Sides(above=1, below=1, all=3)
    """
    p_values = adjusted(gains) if p_values is None else p_values
    real = [each.value for name, each in gains.items() if each is not None and p_values[name] < LEVEL]
    return Sides(sum(value > 0 for value in real), sum(value < 0 for value in real), len(gains))
