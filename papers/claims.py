"""A claim of the literature, and the rules by which a study's numbers decide it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

from calibrant._math.means import LEVEL, Mean, mean_of, paired_difference, plus_minus

PRACTICE, OWN, NOT_CLAIMED = "common practice", "this project", "claimed by no paper"
"""Sources of claims that no paper makes: what many do, what this project asks of its own accord, and what it
asks of papers' methods beyond what they say."""
Word: TypeAlias = Literal["holds", "does not hold", "mixed", "undecided"]
"""*Mixed*: beyond noise one way in some of several cases, such as files, and the other way in others."""


class Ruling(str):
    """A verdict that intervals decided, with the p-value of the test that they invert.

    Attributes:
        p: Below 0.05 where the verdict is decided; None where there is one value and so no interval.

    Example:
        >>> below(Mean(value=-1.0, half_width=0.5, n=3)).p < 0.05
        True
    """

    __slots__ = ("p",)
    p: float | None

    def __new__(cls, word: Word, p: float | None) -> Self:
        """A word with its p-value."""
        found = super().__new__(cls, word)
        found.p = p
        return found


Verdict: TypeAlias = Word | Ruling


@dataclass(frozen=True, kw_only=True)
class Departure:
    """What a study does otherwise than the paper whose claims it tests, so that its verdicts settle nothing.

    Attributes:
        verdict: What is said of such a claim in place of the verdict.
        what: The departure, as a sentence.
    """

    verdict: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim, whether it holds in the study, and the numbers that say so.

    Attributes:
        key: Name by which the page's template finds the claim.
        source: Who says it, and where.
        statement: What is claimed, as a sentence without its full stop.
        verdict: What the numbers say, by one of the rules of this module.
        evidence: The numbers, as a sentence without its full stop.
        arms: The two arms that a directional claim compares; with their results exchanged, "holds" becomes
            "does not hold" and the other way round. Empty for a claim that compares no arms.
        departures: What the study does otherwise than the source, if the claim may depend on it.
    """

    key: str
    source: str
    statement: str
    verdict: Verdict
    evidence: str
    arms: tuple[str, ...] = ()
    departures: tuple[Departure, ...] = ()

    @property
    def said(self) -> str:
        """What becomes of the claim: the verdict, unless the study departs from the source.

        Example:
            >>> from dataclasses import replace
            >>> claim = Claim(key="", source="", statement="", verdict="holds", evidence="")
            >>> summed = Departure(verdict="depends on the reduction", what="Sums are means here.")
            >>> claim.said, replace(claim, departures=(summed,)).said
            ('holds', 'depends on the reduction')
        """
        return "; ".join(each.verdict for each in self.departures) or self.verdict

    @property
    def here(self) -> str:
        """What becomes of the claim; where the study departs from its source, what was found, too."""
        return self.said + (f" (here: {self.verdict})" if self.departures else "")

    @property
    def p_value(self) -> float | None:
        """The p-value of the test that decided the verdict; None where an interval did not decide it."""
        return self.verdict.p if isinstance(self.verdict, Ruling) else None


def below(found: Mean, limit: float = 0.0) -> Ruling:
    """Whether a mean claimed to lie below ``limit`` does, by its interval.

    Example:
        >>> below(Mean(value=-1.0, half_width=0.5, n=3)), below(Mean(value=1.0, half_width=0.5, n=3))
        ('holds', 'does not hold')
        >>> below(Mean(value=-1.0, half_width=None, n=1))
        'undecided'
    """
    return within(found, high=limit)


def above(found: Mean, limit: float = 0.0) -> Ruling:
    """Whether a mean claimed to lie above ``limit`` does, by its interval."""
    return within(found, low=limit)


def within(found: Mean, *, low: float = -math.inf, high: float = math.inf) -> Ruling:
    """Whether a mean claimed to lie between two bounds does: its whole interval inside, or all of it outside.

    Example:
        >>> within(Mean(value=1.0, half_width=0.01, n=3), low=0.9, high=1.1)
        'holds'
    """
    if found.half_width is None:
        return Ruling("undecided", None)
    inside = max(_beyond(found, low, -1), _beyond(found, high, 1))
    outside = min(_beyond(found, low, 1), _beyond(found, high, -1))
    if low < found.low and found.high < high:
        return Ruling("holds", inside)
    if found.high < low or found.low > high:
        return Ruling("does not hold", outside)
    return Ruling("undecided", min(inside, outside))


def _beyond(found: Mean, bound: float, side: Literal[-1, 1]) -> float:
    """Two-sided p-value of the mean lying below a bound (side 1) or above it (side -1), by Student's t."""
    from scipy.special import stdtr, stdtrit

    distance = side * (bound - found.value)
    if math.isinf(distance) or not found.half_width:
        return 0.0 if distance > 0 else 1.0
    error = found.half_width / stdtrit(found.n - 1, (1 + LEVEL) / 2)
    return min(1.0, 2 * float(stdtr(found.n - 1, -distance / error)))


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim made of several parts, each of which must hold.

    It holds by the weakest of its parts. One that fails is one of as many as were tried (Bonferroni): the
    claim does not hold if the p-value of the failure, times their number, is still below the level.

    Example:
        >>> all_of(["holds", "undecided"]), all_of(["holds", "does not hold"])
        ('undecided', 'does not hold')
        >>> all_of([Ruling("holds", 0.01), Ruling("does not hold", 0.03)])
        'undecided'
    """
    found = list(verdicts)
    ps = [each.p if isinstance(each, Ruling) else None for each in found]
    known = [p for p in ps if p is not None]
    complete = len(known) == len(found) > 0
    if "mixed" in found:
        return Ruling("mixed", max(known) if complete else None)
    if "does not hold" in found:
        failed = [p for each, p in zip(found, ps, strict=True) if each == "does not hold" and p is not None]
        p = min(1.0, len(found) * min(failed)) if failed and complete else None
        return Ruling("does not hold" if p is None or p < 1 - LEVEL else "undecided", p)
    word: Word = "holds" if found and all(each == "holds" for each in found) else "undecided"
    return Ruling(word, max(known) if complete else None)


def compared(
    first: tuple[str, Sequence[float]],
    second: tuple[str, Sequence[float]],
    *,
    digits: int = 2,
    scale: float = 1.0,
    unit: str = "",
) -> tuple[Mean, str]:
    """The paired difference of two arms' values, and the sentence that states all three.

    Example:
        >>> compared(("focal", [1.0, 2.0]), ("cross-entropy", [2.0, 3.0]), digits=1)[1]
        '1.5 ± 6.4 with focal, 2.5 ± 6.4 with cross-entropy, difference -1.0 ± 0.0'
    """
    gap = paired_difference(first[1], second[1])
    said = [
        f"{plus_minus(mean_of(values), digits, scale)}{unit} with {name}" for name, values in (first, second)
    ]
    return gap, f"{', '.join(said)}, difference {plus_minus(gap, digits, scale, signed=True)}"


def exchanged(value: Any, name: str, first: object, second: object) -> Any:
    """Wherever rows of both names stand in one list, all but the names exchanged.

    With this the law about claims turns results.

    Example:
        >>> exchanged({"arms": [{"loss": "a", "ece": 1}, {"loss": "b", "ece": 2}]}, "loss", "a", "b")
        {'arms': [{'loss': 'a', 'ece': 2}, {'loss': 'b', 'ece': 1}]}
        >>> exchanged([{"loss": "a", "ece": 1}], "loss", "a", "b")
        [{'loss': 'a', 'ece': 1}]
    """
    if isinstance(value, Mapping):
        return {key: exchanged(each, name, first, second) for key, each in value.items()}
    if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
        return value
    by_name = {row[name]: row for row in value if name in row}
    if not {first, second} <= by_name.keys():
        return [exchanged(row, name, first, second) for row in value]
    partner = {first: second, second: first}
    return [{**by_name[partner.get(row[name], row[name])], name: row[name]} for row in value]


def arms_exchanged(numbers: Any, first: str, second: str) -> Any:
    """The numbers with the results of two arms exchanged, in every list that has both."""
    return exchanged(numbers, "arm", first, second)


def sides_exchanged(value: Any, first: str, second: str) -> Any:
    """Wherever both names stand side by side, their contents exchanged.

    Example:
        >>> sides_exchanged({"n": 2, "T": {"ece": 1.0, "nll": 2.0}}, "ece", "nll")
        {'n': 2, 'T': {'ece': 2.0, 'nll': 1.0}}
    """
    if isinstance(value, Mapping):
        partner = {first: second, second: first} if first in value and second in value else {}
        return {key: sides_exchanged(value[partner.get(key, key)], first, second) for key in value}
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return [sides_exchanged(each, first, second) for each in value]
    return value
