"""All claims of all studies together: what each study found, and what multiplicity leaves of it."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from calibrant._math.text_form import common_start
from calibrant_lab.tables.comparisons import adjusted
from papers.claims import LEVEL, OWN, PRACTICE, Claim
from papers.study import Page

PAPERS: Mapping[str, str] = {
    "Mukhoti": "Mukhoti et al. (2020)",
    "Komisarenko": "Komisarenko and Kull (2024)",
    "focal calibration loss": "Focal calibration loss (2025)",
    "Kimura": "Kimura and Naganuma (2024)",
}
"""Papers by how the sources of their claims begin."""
OTHERS = "Claims of no paper, or of the project"
NO_PAPER = frozenset({PRACTICE, OWN})
"""Sources of claims that no paper makes."""
_ABOUT = (
    "Written by `python docs/explanation/write_claims.py` from the results files beside it. "
    "[Claims](../explanation/claims.md) takes together what several studies say of one claim; here each "
    "stands by itself."
)
_COLUMNS = (
    "*p* is that of the test which the verdict's interval inverts (two-sided, Student's t over seeds, or as "
    "the study says; of claims with several parts the largest, or, where a part fails, the smallest times "
    "their number). *q* is p adjusted by Benjamini and Hochberg's method for all claims of the paper on all "
    f"pages, at {1 - LEVEL:.0%}. A test with the same numbers twice counts once. *After q* is what it leaves "
    "of the verdict; a dash where counts, not an interval, decide. *Open* stands before the verdict where "
    "the study departs from the paper in something that the claim may depend on: no status counts such a "
    "claim, and these are adjusted by themselves. Studies share data and seeds, and two claims may share an "
    "arm, so the tests are dependent, not always positively, as the method asks. Benjamini and Yekutieli's "
    "method allows for any dependence; how much it leaves is said beside the other. The last column points "
    "to the list above each table, which says what the study does otherwise than the paper. † marks a fitted "
    "exponent whose search ended on a bound."
)
UNIVERSAL = "<!--every-->"
"""What marks a claim of every network and data set."""
_ORDER = ("holds", "does not hold", "mixed", "undecided")
_COMPUTED = re.compile(r" here( \(\d+ of \d+\))?$|^depends on the \w+|^beyond the paper$")
_CITED = re.compile(r"<!-- (.*?) -->")
_WRITTEN = re.compile(r"<!--(where|numbers|what|tally) ([^>]*?)-->.*?<!--/-->")
_PLACE = re.compile(r"(?: \(((?:with|as|on) [^()]*|renormalised)\))?(?:, (on the long tail))?$")
"""What a page that asks a claim in several ways has at its end."""
_NUMBER = re.compile(r"([+-]?[\d.]+ ± [\d.]+(?: %)?), n = ")


_Test: TypeAlias = tuple[float | None, str]
_Family: TypeAlias = tuple[str, bool]


@dataclass(frozen=True, kw_only=True)
class Found:
    """A claim on a page.

    Attributes:
        page: The page that has it.
        paper: Whose claim it is; those of a paper that no study leaves open are one family of tests.
        claim: The claim.
        q: Its p-value, adjusted for its family; None where no interval decided it.
    """

    page: Page
    paper: str
    claim: Claim
    q: float | None = None

    @property
    def name(self) -> str:
        """Its name among the claims of all pages."""
        return f"{self.page.name}/{self.claim.key}"

    @property
    def left(self) -> str:
        """The verdict, of which the adjusted p-value may leave nothing."""
        if self.q is not None and self.q >= 1 - LEVEL and self.claim.verdict != "undecided":
            return "undecided"
        return str(self.claim.verdict)


def paper_of(source: str) -> str:
    """The paper that a claim's source names.

    Example:
        >>> paper_of("Komisarenko and Kull 2024, section 4.1"), paper_of("this project") == OTHERS
        ('Komisarenko and Kull (2024)', True)
    """
    return next((title for start, title in PAPERS.items() if source.startswith(start)), OTHERS)


def every_claim(pages: Iterable[Page], folder: Path) -> list[Found]:
    """Every claim that the results files in a folder decide, adjusted within each paper.

    What studies leave open is adjusted by itself, so what is counted is a whole family. The adjustment is
    that of Benjamini and Hochberg: of what is still decided by it, one in twenty is a chance finding on
    average. Claims that no interval decides are not in it; those with the same p-value and the same evidence,
    since they are asked of the same runs, count as one test.
    """
    found = [
        Found(page=page, paper=paper_of(claim.source), claim=claim)
        for page in pages
        for claim in page.claims(page.read(folder))
    ]
    done: dict[tuple[_Family, _Test], float] = {}
    for family in dict.fromkeys(map(_family, found)):
        tests = {
            _test(each.claim): p
            for each in found
            if _family(each) == family and (p := each.claim.p_value) is not None
        }
        adjusted_ps = adjusted([*tests.values()], "benjamini-hochberg")
        done |= {(family, test): q for test, q in zip(tests, adjusted_ps, strict=True)}
    return [replace(each, q=done.get((_family(each), _test(each.claim)))) for each in found]


def _family(each: Found) -> _Family:
    """A paper's claims that count, or those that studies leave open: a family is what statuses count."""
    return each.paper, bool(each.claim.departures)


def _test(claim: Claim) -> _Test:
    """What tells tests apart: what is asked twice of the same runs is one test."""
    return claim.p_value, claim.evidence


def page_text(found: Sequence[Found]) -> str:
    """The page of all claims, in Markdown."""
    lines = ["# Every claim, study by study", "", _ABOUT, "", _COLUMNS]
    for paper in [*PAPERS.values(), OTHERS]:
        rows = [each for each in found if each.paper == paper]
        if rows:
            lines += ["", f"## {paper}", "", _summary(rows), "", *_table(rows)]
    return "\n".join(lines) + "\n"


def _summary(rows: Sequence[Found]) -> str:
    """How many claims there are, and how many tests have p and q below the level, each test counted once."""
    tested = [each for each in rows if each.q is not None]
    pages = len({each.page.name for each in rows})
    lines = [
        f"{len(rows)} claims on {pages} page{'s' * (pages > 1)}; an interval speaks to {len(tested)} of them."
    ]
    for opened, title in ((False, "Counted"), (True, "Open")):
        mine = [each for each in tested if bool(each.claim.departures) == opened]
        tests = {_test(each.claim): each for each in mine}
        if not tests:
            continue
        decided = [each for each in tests.values() if each.claim.verdict != "undecided"]
        left = [each for each in decided if each.left != "undecided"]
        # Yekutieli's factor; q is the smallest of growing multiples of p, so that a factor may come after it.
        factor = sum(1 / rank for rank in range(1, len(tests) + 1))
        any_dependence = sum(each.q is not None and factor * each.q < 1 - LEVEL for each in left)
        lines.append(
            f"{title}: {len(mine)} claims by {len(tests)} tests, of which {len(decided)} have p below "
            f"{1 - LEVEL:.2f}, {len(left)} of these q, too, and {any_dependence} by Benjamini and "
            "Yekutieli's."
        )
    return " ".join(lines)


def _table(rows: Sequence[Found]) -> list[str]:
    heads = ("claim", "page", "verdict", "p", "q", "after q", "evidence", "departures")
    lines = ["| " + " | ".join(heads) + " |", "| --- | --- | --- | ---: | ---: | --- | --- | --- |"]
    notes: dict[str, int] = {}
    for each in rows:
        claim = each.claim
        departures = [*(one.what for one in claim.departures), each.page.departs]
        marks = [notes.setdefault(one, len(notes) + 1) for one in dict.fromkeys(departures) if one]
        left_open = "open: " if claim.departures else ""
        cells = (
            claim.statement,
            f"[{each.page.name}]({each.page.name}.md)",
            f"{left_open}{claim.verdict}",
            _number(claim.p_value),
            _number(each.q),
            "–" if each.q is None else f"{left_open}{each.left}",
            claim.evidence,
            ", ".join(map(str, sorted(marks))) or "–",
        )
        lines.append("| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|") for cell in cells) + " |")
    said = ["Departures:", "", *(f"{number}. {what}" for what, number in notes.items()), ""] if notes else []
    return [*said, *lines]


def _number(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 1e-4" if p < 1e-4 else f"{p:.2g}"


def together(found: Collection[Found], *, universal: bool = False) -> str:
    """The status of a row of claims from what the correction leaves of those that it names.

    A claim that is ``universal``, of every network and data set, does not hold where one of them refutes it.
    Undecided ones do not contradict the others; they are counted. A claim that a study leaves open, since it
    departs from the paper, is not; where all are left open, that is the status.
    """
    faithful = [each for each in found if not each.claim.departures]
    if not faithful:
        return next(iter(found)).claim.said
    verdicts = {each.left for each in faithful} - {"undecided"} or {"undecided"}
    if universal and "does not hold" in verdicts:
        verdicts = {"does not hold"}
    if len(verdicts) > 1 or "mixed" in verdicts:
        return "mixed here"
    (verdict,) = verdicts
    alike = sum(each.left == verdict for each in faithful)
    return f"{verdict} here" + (f" ({alike} of {len(faithful)})" if alike < len(faithful) else "")


def cited(check: str, names: Iterable[str]) -> list[str]:
    """The claims of studies that a row names in its comment; a star stands for several.

    Example:
        >>> cited("a page <!-- page/one; page/t* -->", ["page/one", "page/two", "page/six"])
        ['page/one', 'page/two']
    """
    patterns = [each.strip() for found in _CITED.findall(check) for each in found.split("; ")]
    return [name for name in names if any(fnmatch.fnmatchcase(name, each) for each in patterns)]


def tally(found: Iterable[str]) -> str:
    """How many claims came out which way.

    Example:
        >>> tally(["holds", "undecided", "holds"])
        'holds 2, undecided 1'
    """
    counted = Counter(found)
    return ", ".join(f"{said} {counted[said]}" for said in sorted(counted, key=_ORDER.index))


def with_tallies(text: str, found: Sequence[Found]) -> str:
    """The page of what was learned, with the tally and the pages of every row of findings written again."""
    known = {each.name: each for each in found}
    lines: list[str] = []
    for line in text.splitlines():
        cells = line.split(" | ")
        rows = [known[name] for name in cited(line, known)] if line.startswith("| ") else []
        if rows and len(cells) == 3:
            pages = dict.fromkeys(each.page.name for each in rows)
            links = ", ".join(f"[{page}](../results/{page}.md)" for page in pages)
            cells[1:] = [tally(each.left for each in rows), f"{links} {cells[2][cells[2].index('<!--') :]}"]
        lines.append(" | ".join(cells))
    return "\n".join(lines) + "\n"


def outcomes(found: Sequence[Found], how: str) -> str:
    """What the correction leaves of claims that ask the same in several places, verdict by verdict.

    Args:
        found: The claims.
        how: ``where`` names pages and, in parentheses, what a page asks in several ways; ``numbers`` adds
            the numbers of what is decided; ``what`` names what is decided instead, and counts the others;
            ``tally`` counts them, those that are left open by themselves.
    """
    if not found:
        return "not asked yet"
    if how == "tally":
        counted, left_open = (
            tally(each.left for each in found if bool(each.claim.departures) == departs)
            for departs in (False, True)
        )
        return "; ".join(part for part in (counted, left_open and f"left open, {left_open}") if part)
    start = common_start(each.claim.statement for each in found).rpartition(" ")[0]
    said: list[str] = []
    for verdict in _ORDER:
        group = [each for each in found if each.left == verdict]
        if not group:
            continue
        if how != "what":
            named = [_place(each, numbers=how == "numbers" and verdict != "undecided") for each in group]
            said.append(f"{verdict}: {', '.join(named)}")
        elif verdict == "undecided":
            said.append(f"undecided {len(group)}")
        else:
            named = [each.claim.statement.removeprefix(start).rpartition(" (")[0].strip() for each in group]
            said.append(f"{verdict}: {', and '.join(named)}")
    return "; ".join(said)


def _place(each: Found, *, numbers: bool) -> str:
    asked = _PLACE.search(each.claim.statement)
    number = _NUMBER.search(each.claim.evidence) if numbers else None
    said = ["open" if each.claim.departures else "", *(asked.groups() if asked else ()), number and number[1]]
    more = ", ".join(one for one in said if one)
    return each.page.name + (f" ({more})" if more else "")


def with_statuses(text: str, found: Sequence[Found]) -> str:
    """The page on claims, with what rests on studies written again: statuses, and what is so marked.

    ``<!--where page/key*-->…<!--/-->`` marks what :func:`outcomes` says of claims, here by ``where``.
    """

    def again(mark: re.Match[str]) -> str:
        how, names = mark[1], cited(f"<!-- {mark[2]} -->", known)
        return f"<!--{how} {mark[2]}-->{outcomes([known[name] for name in names], how)}<!--/-->"

    known = {each.name: each for each in found if each.claim.source not in NO_PAPER}
    lines: list[str] = []
    for line in text.splitlines():
        cells = line.split(" | ")
        names = cited(line, known) if line.startswith("| ") and len(cells) >= 5 else []
        if names and _COMPUTED.search(cells[2]):
            cells[2] = together([known[name] for name in names], universal=UNIVERSAL in cells[0])
        lines.append(_WRITTEN.sub(again, " | ".join(cells)))
    return "\n".join(lines) + "\n"
