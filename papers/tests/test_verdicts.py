"""p-values of verdicts, and what multiplicity leaves of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from calibrant._math.means import Mean, mean_of
from papers.claims import Claim, Departure, Ruling, Verdict, all_of, below, within
from papers.study import Page
from papers.verdicts import OTHERS, Found, every_claim, outcomes, page_text, with_statuses


def test_p_is_that_of_the_t_test() -> None:
    """Of the mean against the limit, two-sided."""
    values = np.random.default_rng(0).normal(0.4, 1.0, 9).tolist()
    ruling = below(mean_of(values), 1.0)
    _, wanted = stats.ttest_1samp(values, 1.0)
    assert ruling.p == pytest.approx(wanted, rel=1e-9)


def test_decided_means_p_below_a_twentieth() -> None:
    """Whatever the rule, the interval and the p-value say the same."""
    rng = np.random.default_rng(1)
    rules = (
        below,
        lambda mean: within(mean, low=-0.5, high=0.5),
        lambda mean: all_of([below(mean, 0.1), below(mean, 0.2)]),
    )
    seen: set[str] = set()
    for _ in range(200):
        mean = Mean(value=rng.normal(), half_width=float(rng.exponential(0.4)), n=int(rng.integers(2, 9)))
        for rule in rules:
            found = rule(mean)
            seen.add(found)
            p = _p(found)
            assert p is not None
            assert (p < 0.05) == (found != "undecided"), mean
    assert seen == {"holds", "does not hold", "undecided"}
    assert below(mean_of([1.0])).p is None


def test_parts_count() -> None:
    """A claim of several parts holds by the weakest; one failure counts against all that were tried."""
    parts: list[Verdict] = [Ruling("holds", 0.001), Ruling("holds", 0.02)]
    assert (all_of(parts), _p(all_of(parts))) == ("holds", 0.02)
    failed = all_of([*parts, Ruling("does not hold", 0.01)])
    assert (failed, _p(failed)) == ("does not hold", pytest.approx(0.03))
    chance = all_of([*parts, Ruling("does not hold", 0.02)])
    assert (chance, _p(chance)) == ("undecided", pytest.approx(0.06))
    assert _p(all_of(["holds", Ruling("holds", 0.01)])) is None


def _p(verdict: Verdict) -> float | None:
    return verdict.p if isinstance(verdict, Ruling) else None


def claim(key: str, source: str, p: float, departures: tuple[Departure, ...] = ()) -> Claim:
    """A claim that holds with that p-value."""
    verdict = Ruling("holds" if p < 0.05 else "undecided", p)
    return Claim(
        key=key, source=source, statement=key, verdict=verdict, evidence="n = 3", departures=departures
    )


def test_each_paper_is_a_family_over_all_pages(tmp_path: Path) -> None:
    """Benjamini and Hochberg's q counts the claims of a paper on every page, and no other's."""
    ps = {"one": [0.001, 0.03], "two": [0.04, 0.9]}
    pages: list[Page] = []
    for name, family in ps.items():
        claims = [claim(f"{p}", "Mukhoti et al. (2020), section 4", p) for p in family]
        claims.append(claim("lonely", "this project", 0.049))
        found = tuple(claims)
        pages.append(
            Page(name=name, template=tmp_path, claims=lambda _, found=found: found, departs="Small.")
        )
        (tmp_path / f"{name}.json").write_text(json.dumps({}), encoding="utf-8")
    every = every_claim(pages, tmp_path)
    q = {each.name: each.q for each in every}
    assert q["one/0.001"] == pytest.approx(0.004)
    assert q["one/0.03"] == q["two/0.04"] == pytest.approx(4 / 3 * 0.04)
    assert q["one/lonely"] == pytest.approx(0.049)
    left = {each.name: each.left for each in every}
    assert (left["one/0.001"], left["one/0.03"], left["two/0.9"]) == ("holds", "undecided", "undecided")
    text = page_text(every)
    assert (
        "4 claims on 2 pages; an interval speaks to 4 of them. Counted: 4 claims by 4 tests, of which 3 "
        "have p below 0.05, 1 of these q, too, and 1 by Benjamini and Yekutieli's." in text
    )
    assert "Small." in text
    assert text.index("## Mukhoti") < text.index(f"## {OTHERS}")


def test_what_is_left_open_is_a_family_of_its_own(tmp_path: Path) -> None:
    """Many small p-values of claims that no status counts do not lower the q of one that counts."""
    mean = (Departure(verdict="depends on the reduction", what="A mean."),)
    ps = [0.0001, 0.0002, 0.0003]
    found = (
        claim("0.04", "Mukhoti", 0.04),
        claim("0.5", "Mukhoti", 0.5),
        *(claim(f"{p}", "Mukhoti", p, mean) for p in ps),
    )
    (tmp_path / "one.json").write_text("{}", encoding="utf-8")
    every = every_claim([Page(name="one", template=tmp_path, claims=lambda _: found)], tmp_path)
    assert [each.q for each in every] == pytest.approx([0.08, 0.5, 0.0003, 0.0003, 0.0003])
    text = page_text(every)
    assert "Counted: 2 claims by 2 tests, of which 1 have p below 0.05, 0 of these q" in text
    assert "Open: 3 claims by 3 tests, of which 3 have p below 0.05, 3 of these q" in text
    assert text.count("| open: holds |") == 6  # by p and by q
    assert text.index("1. A mean.") < text.index("| claim | page |")


def test_a_test_that_two_pages_share_counts_once(tmp_path: Path) -> None:
    """The same p-value with the same evidence is one of the family's tests, and both pages have its q."""
    pages: list[Page] = []
    for name, family in {"one": [0.001, 0.04], "two": [0.001]}.items():
        found = tuple(claim(f"{p}", "Mukhoti", p) for p in family)
        pages.append(Page(name=name, template=tmp_path, claims=lambda _, found=found: found))
        (tmp_path / f"{name}.json").write_text("{}", encoding="utf-8")
    every = every_claim(pages, tmp_path)
    assert [each.q for each in every] == pytest.approx([0.002, 0.04, 0.002])
    assert (
        "Counted: 3 claims by 2 tests, of which 2 have p below 0.05, 2 of these q, too, and 1 by"
        in page_text(every)  # 0.04 times 1 + 1/2 is 0.06
    )


def test_statuses_are_written_again() -> None:
    """Only those of rows that rest on studies; what tests decide stays."""
    page = Page(name="one", template=Path())
    departs = (Departure(verdict="depends on the reduction", what="A mean."),)
    found = [
        *every_from(page, claim("a", "Mukhoti", 0.01)),
        *every_from(page, claim("b", "Mukhoti", 0.01, departs)),
    ]
    rows = (
        "| A | x | {} | y | <!-- one/a -->",
        "| B | x | {} | y | <!-- one/b -->",
        "| C | x | holds | y | z",
    )
    text = "\n".join(rows) + "\n"
    wanted = text.format("holds here", "depends on the reduction")
    assert with_statuses(text.format("mixed here", "holds here"), found) == wanted


def test_outcomes_name_places_and_numbers() -> None:
    """Of claims that ask the same: verdict by verdict, where, with the numbers of what is decided."""
    page, asked = Page(name="one", template=Path()), "FCL errs less than Brier"
    found = [
        *every_from(page, one_of(asked, "holds", "difference -0.66 ± 0.36 %, n = 5")),
        *every_from(page, one_of(f"{asked} (with the sum), on the long tail", "undecided", "n = 3")),
        *every_from(page, one_of(f"{asked} (0.9 to 1.1)", "does not hold", "+1.0 ± 0.5, n = 3 seeds")),
    ]
    start = "holds: one; does not hold: one; undecided: one (with the sum, on the long tail)"
    assert outcomes(found, "where") == start
    numbers = (
        "holds: one (-0.66 ± 0.36 %); does not hold: one (+1.0 ± 0.5); undecided: one (with the sum, on "
    )
    assert outcomes(found, "numbers") == numbers + "the long tail)"
    others = [
        *every_from(page, one_of("FCL errs less than Brier (a)", "holds", "")),
        *every_from(page, one_of("FCL errs less than MMCE (a)", "undecided", "")),
    ]
    assert outcomes(others, "what") == "holds: Brier; undecided 1"
    left_open = replace(found[2], claim=replace(found[2].claim, departures=(Departure(verdict="", what=""),)))
    assert outcomes([*found[:2], left_open], "tally") == "holds 1, undecided 1; left open, does not hold 1"
    assert outcomes([left_open], "tally") == "left open, does not hold 1"
    assert {outcomes([], how) for how in ("where", "numbers", "what", "tally")} == {"not asked yet"}
    row = "| A | x | mixed here | here <!--where one/k-->old<!--/--> | <!-- one/k -->\n"
    assert with_statuses(row, found[:1]) == row.replace("old", "holds: one").replace("mixed", "holds")


def one_of(statement: str, verdict: Verdict, evidence: str) -> Claim:
    """A claim of a paper."""
    return Claim(key="k", source="Mukhoti", statement=statement, verdict=verdict, evidence=evidence)


def every_from(page: Page, one: Claim) -> list[Found]:
    """A claim as it is found on a page."""
    return [Found(page=page, paper="", claim=one)]
