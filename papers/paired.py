"""Claims about arms whose runs are paired by seed: one quantity lower than another's, or between bounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant._math.means import Mean, plus_minus
from papers.arms import ArmRuns, Pick, difference, shared
from papers.claims import Claim, Departure, Verdict, above, below, within
from papers.pages import table

FEWEST_SEEDS = 3
"""With fewer in common nothing is decided, and a claim is not asked yet."""


def enough(arms: Mapping[str, ArmRuns]) -> dict[str, ArmRuns]:
    """The arms with as many seeds as it takes to decide anything."""
    return {key: arm for key, arm in arms.items() if len(arm.runs) >= FEWEST_SEEDS}


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """What is read off a run, and how it is written.

    Attributes:
        pick: Reads it off.
        digits: After the point.
        scale: What it is multiplied by before it is written.
        unit: Written after it.
        said: What the evidence calls it, where it is not what the statement speaks of.
    """

    pick: Pick
    digits: int = 2
    scale: float = 1.0
    unit: str = ""
    said: str = ""

    def shown(self, found: Mean, *, signed: bool = False) -> str:
        """The mean with half the width of its interval."""
        return plus_minus(found, self.digits, self.scale, signed=signed) + self.unit

    def cell(self, arm: ArmRuns | None) -> str:
        """The mean as a table has it: without its unit; a dash without runs."""
        return "–" if arm is None else plus_minus(arm.mean(self.pick), self.digits, self.scale)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A claim without its verdict; see :class:`~papers.claims.Claim`."""

    key: str
    source: str
    statement: str
    departures: tuple[Departure, ...] = ()

    def lower(self, first: ArmRuns | None, second: ArmRuns | None, what: Quantity) -> Iterator[Claim]:
        """That the first arm's quantity is the lower one, over the seeds that both have."""
        return self._compared(below, first, second, what)

    def higher(self, first: ArmRuns | None, second: ArmRuns | None, what: Quantity) -> Iterator[Claim]:
        """That the first arm's quantity is the higher one, over the seeds that both have."""
        return self._compared(above, first, second, what)

    def alike(
        self, first: ArmRuns | None, second: ArmRuns | None, what: Quantity, margin: float
    ) -> Iterator[Claim]:
        """That the two arms' quantities are no farther apart than a margin."""
        for gap, values, _ in _gaps(first, second, what):
            verdict = within(gap, low=-margin, high=margin)
            yield self._claim(verdict, f"{values}; difference {what.shown(gap, signed=True)}", gap.n)

    def between(
        self, arm: ArmRuns | None, what: Quantity, *, low: float = -math.inf, high: float = math.inf
    ) -> Iterator[Claim]:
        """That an arm's quantity lies between two bounds."""
        if arm is None or len(arm.runs) < FEWEST_SEEDS:
            return
        found = arm.mean(what.pick)
        yield self._claim(within(found, low=low, high=high), what.shown(found), found.n)

    def _compared(
        self,
        ruled: Callable[[Mean], Verdict],
        first: ArmRuns | None,
        second: ArmRuns | None,
        what: Quantity,
    ) -> Iterator[Claim]:
        for gap, values, arms in _gaps(first, second, what):
            yield self._claim(ruled(gap), f"{values}; difference {what.shown(gap, signed=True)}", gap.n, arms)

    def _claim(self, verdict: Verdict, evidence: str, n: int, arms: tuple[str, ...] = ()) -> Claim:
        return Claim(
            key=self.key,
            source=self.source,
            statement=self.statement,
            verdict=verdict,
            evidence=f"{evidence}, n = {n}",
            arms=arms,
            departures=self.departures,
        )


def _gaps(
    first: ArmRuns | None, second: ArmRuns | None, what: Quantity
) -> Iterator[tuple[Mean, str, tuple[str, str]]]:
    """The paired difference, both means in words, and the arms; nothing where too few seeds are shared."""
    gap = difference(first, second, what.pick) if first and second else None
    if first is None or second is None or gap is None or gap.n < FEWEST_SEEDS:
        return
    values = "; ".join(f"{arm.title}: {what.shown(arm.mean(what.pick))}" for arm in shared(first, second))
    yield gap, f"{what.said} – {values}" if what.said else values, (first.key, second.key)


def arms_table(heads: Sequence[str], arms: Iterable[ArmRuns], columns: Sequence[Quantity]) -> str:
    """A row for each arm: title, number of runs, means."""
    return table(
        ["loss", "n", *heads],
        [[arm.title, str(len(arm.runs)), *(each.cell(arm) for each in columns)] for arm in arms],
    )


def claims_table(claims: Iterable[Claim]) -> str:
    """The claims of a page, with what was found of each."""
    heads = ["claim", "of", "here", "numbers"]
    rows = [[f"{claim.statement}.", claim.source, claim.here, claim.evidence] for claim in claims]
    escaped = [[cell.replace("|", "\\|") for cell in cells] for cells in rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *escaped))


def in_words(title: str) -> str:
    """A loss of a table as a sentence calls it.

    Example:
        >>> in_words("focal calibration, γ = 3, λ = 0.5"), in_words("cross-entropy")
        ('focal calibration loss (γ = 3, λ = 0.5)', 'cross-entropy')
        >>> in_words("label smoothing, 0.05")
        'label smoothing (0.05)'
    """
    name, _, settings = title.partition(", ")
    loss = " loss" if name in {"focal", "dual focal", "focal calibration"} else ""
    return f"{name}{loss} ({settings})" if settings else title


_SAID: Mapping[str, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "mixed": ("is mixed", "are mixed"),
    "undecided": ("is undecided", "are undecided"),
    "open": ("is left open", "are left open"),
}


def _counts(claims: Iterable[Claim]) -> dict[str, str]:
    """How many claims have each verdict, or are left open since the study departs from their source."""
    asked = list(claims)
    settled, open_ = (
        Counter(str(claim.verdict) for claim in asked if bool(claim.departures) == departs)
        for departs in (False, True)
    )
    counts = {said: f"{n} {words[n > 1]}" for said, words in _SAID.items() if (n := settled[said])}
    if open_:
        inside = ", ".join(f"{n} {_SAID[said][n > 1]}" for said in _SAID if (n := open_[said]))
        n = open_.total()
        counts["open"] = f"{n} {_SAID['open'][n > 1]} (here: {inside})"
    return counts


def counted(claims: Iterable[Claim]) -> str:
    """How many claims have each verdict, or are left open; empty without claims.

    Example:
        >>> counted([Claim(key="", source="", statement="", verdict="holds", evidence="")] * 2)
        '2 hold'
    """
    return ", ".join(_counts(claims).values())


def tally_sentence(claims: Iterable[Claim]) -> str:
    """A page's claims, counted by verdict, as a sentence without its full stop.

    Example:
        >>> from dataclasses import replace
        >>> one = Claim(key="", source="", statement="", verdict="undecided", evidence="")
        >>> two = [replace(one, verdict=verdict) for verdict in ("holds", "does not hold")]
        >>> tally_sentence([one, one, two[0]]), tally_sentence([two[1]] * 2)
        ('Of 3 claims 1 holds and 2 are undecided', 'Of 2 claims 2 do not hold')
        >>> tally_sentence([one, *two * 2])
        'Of 5 claims 2 hold, 2 do not, and 1 is undecided'
        >>> summed = Departure(verdict="depends on the reduction", what="Sums are means here.")
        >>> tally_sentence([two[0], replace(one, departures=(summed,))])
        'Of 2 claims 1 holds and 1 is left open (here: 1 is undecided)'
    """
    asked = list(claims)
    counts = _counts(asked)
    if not counts:
        return "No claim is asked yet"
    if "holds" in counts and "does not hold" in counts:
        counts["does not hold"] = counts["does not hold"].removesuffix(" hold")
    *first, last = counts.values()
    joint = {0: "", 1: " and "}.get(len(first), ", and ")
    return f"Of {len(asked)} claims {', '.join(first)}{joint}{last}"


def in_short(claims: Iterable[Claim], questions: Mapping[str, str]) -> str:
    """A list of questions with what became of the claims whose keys begin as each says."""
    known = list(claims)
    answers = {
        question: counted(claim for claim in known if claim.key.startswith(start))
        for start, question in questions.items()
    }
    return "\n".join(f"- {question} {answer}." for question, answer in answers.items() if answer)


def usual_words(
    numbers: Mapping[str, Any],
    done: int,
    claims: Sequence[Claim],
    questions: Mapping[str, str],
    *,
    timed: int | None = None,
) -> dict[str, Any]:
    """What every page of a grid that is not finished says: what was run, what is left, and the claims.

    Args:
        numbers: With the ``cpu_seconds`` that the runs took, and how many runs are ``wanted``.
        done: How many runs the page has.
        claims: All of them.
        questions: As :func:`in_short` has them.
        timed: How many runs the seconds are of; by default all.
    """
    timed = done if timed is None else timed
    per_run = numbers["cpu_seconds"] / timed if timed else 0.0
    return {
        "done": done,
        "minutes": numbers["cpu_seconds"] / 60,
        "per_run": per_run,
        "left_hours": (numbers["wanted"] - done) * per_run / 3600,
        "fewest": FEWEST_SEEDS,
        "counted": tally_sentence(claims),
        "in_short": in_short(claims, questions),
        "claim_table": claims_table(claims),
        "departures": {each.what: each.verdict for claim in claims for each in claim.departures},
    }
