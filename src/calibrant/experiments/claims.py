"""A claim of the literature, and the rules by which a study's numbers decide it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from calibrant.experiments.means import Mean, mean_of, paired_difference, plus_minus

Verdict: TypeAlias = Literal["holds", "does not hold", "undecided"]


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


def below(found: Mean, limit: float = 0.0) -> Verdict:
    """Whether a mean claimed to lie below ``limit`` does, by its interval.

    Example:
        >>> below(Mean(value=-1.0, half_width=0.5, n=3)), below(Mean(value=1.0, half_width=0.5, n=3))
        ('holds', 'does not hold')
        >>> below(Mean(value=-1.0, half_width=None, n=1))
        'undecided'
    """
    return within(found, high=limit)


def above(found: Mean, limit: float = 0.0) -> Verdict:
    """Whether a mean claimed to lie above ``limit`` does, by its interval."""
    return within(found, low=limit)


def within(found: Mean, *, low: float = -float("inf"), high: float = float("inf")) -> Verdict:
    """Whether a mean claimed to lie between two bounds does: its whole interval inside, or all of it outside.

    Example:
        >>> within(Mean(value=1.0, half_width=0.01, n=3), low=0.9, high=1.1)
        'holds'
    """
    if found.half_width is None:
        return "undecided"
    if low < found.low and found.high < high:
        return "holds"
    return "does not hold" if found.high < low or found.low > high else "undecided"


def at_no_cost(found: Mean, margin: float) -> Verdict:
    """Whether a difference claimed to cost nothing does: not above zero, and in any case within a margin.

    "Holds" is a finding of non-inferiority: the whole interval lies below the margin, and not all of it above
    zero. A cost that is beyond noise is one, however small.

    Example:
        >>> at_no_cost(Mean(value=0.1, half_width=0.2, n=5), margin=0.5)
        'holds'
        >>> at_no_cost(Mean(value=0.22, half_width=0.13, n=5), margin=0.5)
        'does not hold'
        >>> at_no_cost(Mean(value=0.1, half_width=0.9, n=5), margin=0.5)
        'undecided'
    """
    if found.low > 0:
        return "does not hold"
    return "holds" if found.high < margin else "undecided"


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim made of several parts, each of which must hold.

    Example:
        >>> all_of(["holds", "undecided"]), all_of(["holds", "does not hold"])
        ('undecided', 'does not hold')
    """
    found = list(verdicts)
    if "does not hold" in found:
        return "does not hold"
    return "holds" if found and all(each == "holds" for each in found) else "undecided"


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


def exchanged(
    rows: Sequence[Mapping[str, Any]], name: str, first: object, second: object
) -> list[dict[str, Any]]:
    """Rows of which two have exchanged all but their name; what the law about claims turns results with.

    Example:
        >>> exchanged([{"loss": "a", "ece": 1}, {"loss": "b", "ece": 2}], "loss", "a", "b")
        [{'loss': 'a', 'ece': 2}, {'loss': 'b', 'ece': 1}]
    """
    partner = {first: second, second: first}
    by_name = {row[name]: row for row in rows}
    return [{**by_name[partner.get(row[name], row[name])], name: row[name]} for row in rows]
