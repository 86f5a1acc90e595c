"""The explanation pages are run: examples give what is shown, and the numbers of the text are among them."""

from __future__ import annotations

import ast
import doctest
import fnmatch
import functools
import importlib
import json
import re
import statistics
from pathlib import Path

import pytest

from papers.claims import Claim, Departure, Word
from papers.roster import STUDIES
from papers.study import Page
from papers.verdicts import (
    NO_PAPER,
    UNIVERSAL,
    Found,
    every_claim,
    page_text,
    together,
    with_statuses,
    with_tallies,
)
from papers.verdicts import cited as named_by

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "explanation"
COSTS = ROOT / "benchmarks" / "scale.md"
RESULTS = ROOT / "docs" / "results"
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))
WITHOUT_CODE = {"README.md", "claims.md"}
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")
SHOWN = re.compile(r"(?<![\w.])\d+\.\d+(?: ± \d+\.\d+)?(?![\w.]*\d)")


def text_of(page: str) -> str:
    """The page as it stands."""
    return (FOLDER / page).read_text(encoding="utf-8")


def code_of(page: str) -> str:
    """Its examples and what they show; blank lines in place of prose, so that a failure names the line."""
    parts = FENCED.split(text_of(page))  # prose, language, code, prose, ...
    lines: list[str] = []
    for place in range(0, len(parts), 3):
        lines.append(re.sub(r"[^\n]+", "", parts[place]))
        if place + 2 < len(parts):
            lines.append("\n" + parts[place + 2] + "\n")
    return "".join(lines)


def prose_of(page: str) -> str:
    """The page without its examples, the targets of its links, and numbers that count sections."""
    text = re.sub(r"\]\([^)]*\)", "]", FENCED.sub("", text_of(page)))
    return re.sub(
        r"(?i)\b(theorem|section|appendix|proposition|figure|table)s? [A-Z]?\.?\d[\d.]*", r"\1", text
    )


def is_among(number: str, shown: list[float]) -> bool:
    """Whether a number, or as a percentage a hundredth of it, is one of those shown, rounded."""
    digits = len(number.partition(".")[2])
    value = float(number)
    return any(round(each, digits) == value or round(100 * abs(each), digits) == value for each in shown)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITHOUT_CODE])
def test_examples_give_what_is_shown(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of the page, one after the other, from the repository's folder."""
    monkeypatch.chdir(ROOT)
    test = doctest.DocTestParser().get_doctest(code_of(page), {}, page, str(FOLDER / page), 0)
    report: list[str] = []
    found = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append)
    assert found.attempted > 2
    assert found.failed == 0, "".join(report)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITHOUT_CODE])
def test_numbers_of_the_text_are_shown(page: str) -> None:
    """No decimal number in the prose that the page's examples do not show, or set."""
    shown = [float(number) for number in re.findall(r"\d+\.?\d*(?:e[-+]?\d+)?", code_of(page))]
    unknown = {number for number in DECIMAL.findall(prose_of(page)) if not is_among(number, shown)}
    assert unknown == set()


def test_numbers_are_looked_for() -> None:
    """The rule can fail: another number is not among those shown."""
    assert is_among("0.63", [0.6266])
    assert is_among("6.1", [0.0614])
    assert not is_among("0.64", [0.6266])
    assert DECIMAL.findall("0.63 and $0.5$, not v1.2.3") == ["0.63", "0.5"]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Files, and headings in them."""
    for target in re.findall(r"\]\(([^)]+)\)", text_of(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (FOLDER / name).resolve()
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def test_pictures_are_those_of_the_script() -> None:
    """The script draws what the pages show, no more and no less, and every one has its file."""
    script = (FOLDER / "draw_figures.py").read_text(encoding="utf-8")
    listed = re.findall(r'^    "([\w-]+)",$', script, flags=re.MULTILINE)
    shown = {name for page in PAGES for name in re.findall(r"\(figures/([\w-]+)\.svg\)", text_of(page))}
    assert len(listed) == len(set(listed))
    assert set(listed) == shown == {path.stem for path in (FOLDER / "figures").glob("*.svg")}


def test_costs_are_those_of_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of the page are made from the benchmark's results, and it says of which code each row is."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    scale = importlib.import_module("scale")
    rows = scale.rows_of(json.loads((scale.RESULTS / "scale.json").read_text(encoding="utf-8")))
    table = f"{scale.START}\n{scale.tables(rows)}\n{scale.END}"
    assert table in COSTS.read_text(encoding="utf-8")
    words = COSTS.read_text(encoding="utf-8").replace(table, "")
    assert all(row["commit"][:7] in words for row in rows)


def test_differences_are_those_of_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """What agrees with the rows in memory is what the script measured."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = importlib.import_module("parts_agree")
    measured = json.loads((script.RESULTS / "parts_agree.json").read_text(encoding="utf-8"))
    table = script.table(measured["differences"])
    assert f"{script.START}\n{table}\n{script.END}" in COSTS.read_text(encoding="utf-8")


def test_every_page_is_in_the_index() -> None:
    """The index names all others."""
    assert set(re.findall(r"\((\w[\w-]*\.md)\)", text_of("README.md"))) == set(PAGES) - {"README.md"}


def claims() -> list[list[str]]:
    """The rows of the tables of claims."""
    rows = [line.strip("|").split("|") for line in text_of("claims.md").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows if row[0].strip() != "claim"]


CHECKED = {"holds", "holds with a condition", "does not hold", "not reproduced", "answered", "one seed"}
"""What a claim is called that tests check; of studies their verdicts decide."""
CITED = re.compile(r"<!-- (.*?) -->")


@functools.cache
def found() -> list[Found]:
    """Every claim of every study."""
    return every_claim([page for study in STUDIES for page in study.pages], RESULTS)


@functools.cache
def verdicts() -> dict[str, Found]:
    """Every claim of a paper on every page of results, by ``page/key``."""
    return {each.name: each for each in found() if each.claim.source not in NO_PAPER}


def cited(check: str) -> list[str]:
    """The claims of studies that a row names in its comment."""
    return named_by(check, verdicts())


def test_claims_have_a_status_and_a_check() -> None:
    """The tests named are there; what studies say is their verdicts taken together, never typed."""
    assert len(claims()) > 40
    for claim, _, status, _, check in claims():
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", check)
        names = cited(check)
        assert named or names, claim
        if status in CHECKED:
            assert named, claim
        else:
            rows = [verdicts()[name] for name in names]
            assert status == together(rows, universal=UNIVERSAL in claim), (claim, names)
        for path, function in named:
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert not function or function in defined, f"{path}::{function}"


def test_claims_cite_all_studies_that_bear_on_them() -> None:
    """Each pattern finds a claim; a claim is cited from every page that has it, with a link to the page."""
    for claim, _, _, _, check in claims():
        for pattern in (each.strip() for found in CITED.findall(check) for each in found.split("; ")):
            assert fnmatch.filter(verdicts(), pattern), (claim, pattern)
        names = cited(check)
        keys = {name.partition("/")[2] for name in names}
        bearing = {name for name in verdicts() if name.partition("/")[2] in keys}
        assert bearing == set(names), claim
        pages = {name.partition("/")[0] for name in names}
        linked = set(re.findall(r"\.\./results/([\w-]+)\.md", check))
        assert pages <= linked, claim


def test_every_claim_of_a_paper_has_its_row() -> None:
    """What a study asks of a paper is in the table of its claims."""
    rows = {name for *_, check in claims() for name in cited(check)}
    assert set(verdicts()) <= rows, sorted(set(verdicts()) - rows)


def test_what_is_computed_is_current() -> None:
    """The page of every claim, and the statuses of this one, are what the results files give."""
    again = "a page of results has changed: run `python docs/explanation/write_claims.py`"
    assert (RESULTS / "verdicts.md").read_text(encoding="utf-8") == page_text(found()), again
    assert with_statuses(text_of("claims.md"), found()) == text_of("claims.md"), again
    turned = text_of("claims.md").replace("| holds here |", "| mixed here |")
    assert with_statuses(turned, found()) == text_of("claims.md")


def test_advice_is_tallied_from_every_study_that_bears_on_it() -> None:
    """Each row of findings names claims that there are, and its tally is theirs."""
    text = text_of("README.md")
    assert with_tallies(text, found()) == text, "run `python docs/explanation/write_claims.py`"
    rows = [line for line in text.splitlines() if "<!--" in line]
    assert len(rows) == 10
    names = [each.name for each in found()]
    for row in rows:
        assert all(
            fnmatch.filter(names, pattern.strip())
            for listed in CITED.findall(row)
            for pattern in listed.split("; ")
        ), row
    assert with_tallies(re.sub(r"\| [^|]*<!--", "| <!--", text), found()) == text


def test_what_advice_says_of_all_studies_is_so() -> None:
    """After a temperature neither FLSD-53 nor label smoothing has the lower log-loss in any study."""
    advice = (ROOT / "docs" / "start" / "which-calibrator.md").read_text(encoding="utf-8")
    assert "FLSD-53 never had a lower log loss than cross-entropy" in advice
    patterns = ("*/flsd-nll-temperature*", "*/smoothing-nll-temperature*")
    asked = [each for each in found() if any(fnmatch.fnmatch(each.name, pattern) for pattern in patterns)]
    assert len(asked) > 10
    assert "holds" not in {each.left for each in asked}


def test_the_summary_of_results_is_so() -> None:
    """Its counts of files are those of the results files, and so is what it says of two scalings."""
    text = " ".join((RESULTS / "index.md").read_text(encoding="utf-8").split())
    rows = json.loads((RESULTS / "prediction-files.json").read_text(encoding="utf-8"))["rows"]
    over, under = (sum(row["direction"] == f"{way}-confident" for row in rows) for way in ("over", "under"))
    assert f"of {len(rows)} [prediction files]" in text
    assert f"{over} are over-confident and {under} under-confident" in text
    files = json.loads((RESULTS / "calibrators.json").read_text(encoding="utf-8"))["files"].values()
    before, after = (
        [statistics.fmean(each["calibrators"][name]["measures"]["ece"]) for each in files]
        for name in ("uncalibrated", "temperature")
    )
    halved = sum(2 * two < one for one, two in zip(before, after, strict=True))
    assert f"more than half of the ECE on {halved} of [{len(before)} files]" in text
    evidence = {each.name: each.claim.evidence for each in found()}
    for by in ("nll", "ece"):
        assert "lower on 3 of 11 files, higher on 0" in evidence[f"calibrators/temperature, {by}"]
    worse = [
        each.name
        for each in found()
        if each.name.startswith("shift/focal-temperature against") and each.left == "does not hold"
    ]
    after_focal = [name for name in worse if "focal" in name.rpartition("after ")[2]]
    assert 2 * len(after_focal) > len(worse) > 0


def test_no_claim_of_a_study_is_passed_over() -> None:
    """Every claim that a study decides stands in a row."""
    known = {name for claim in claims() for name in cited(claim[-1])}
    assert set(verdicts()) == known, "name each claim of a study in a row of docs/explanation/claims.md"


def test_one_disagreement_makes_a_row_mixed() -> None:
    """Undecided verdicts are counted, contradictions are mixed; what a study leaves open is neither."""
    mean = (Departure(verdict="depends on the reduction", what="A mean."),)

    def one(verdict: Word, departures: tuple[Departure, ...] = ()) -> Found:
        asked = Claim(key="", source="", statement="", verdict=verdict, evidence="", departures=departures)
        return Found(page=Page(name="", template=ROOT), paper="", claim=asked)

    holds, open_one, fails = one("holds"), one("undecided"), one("does not hold")
    assert together([holds, holds]) == "holds here"
    assert together([holds, open_one, holds]) == "holds here (2 of 3)"
    assert together([open_one]) == "undecided here"
    assert together([holds, fails]) == "mixed here"
    assert together([holds, fails], universal=True) == "does not hold here (1 of 2)"
    assert together([holds, holds], universal=True) == "holds here"
    assert together([one("holds", mean)]) == "depends on the reduction"
    assert together([one("holds", mean), holds]) == "holds here"
    assert together([one("holds", mean), fails]) == "does not hold here"
    assert together([one("holds", mean), open_one]) == "undecided here"
    assert together([one("holds", mean), holds, fails]) == "mixed here"
    assert together([one("mixed")]) == together([one("mixed"), holds, open_one]) == "mixed here"


def test_every_mark_on_the_page_finds_a_claim_of_a_paper() -> None:
    """What the page of claims computes is of claims that were asked: a mark of none is a mistake in it."""
    assert "not asked yet" not in text_of("claims.md")


def test_numbers_of_the_claims_stand_where_they_link() -> None:
    """A decimal number in what we found, with its interval, is on a page or in a test that the row names."""
    for claim, _, _, found, check in claims():
        places = [FOLDER / name.partition("#")[0] for name in re.findall(r"\]\(([^)]+)\)", found + check)]
        places += [ROOT / name for name in re.findall(r"`(tests/[\w/]+\.py)", check)]
        texts = " ".join(path.read_text(encoding="utf-8") for path in places)
        for number in SHOWN.findall(re.sub(r"\]\([^)]*\)", "]", found)):
            assert re.search(rf"(?<![\d.])0?{re.escape(number.removeprefix('0'))}", texts), (
                f"{claim}: {number}"
            )
