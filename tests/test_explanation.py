"""The explanation pages are run: examples give what is shown, and the numbers of the text are among them."""

from __future__ import annotations

import doctest
import importlib
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from papers import studies
from papers.analysis import read_claims, verdicts

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "explanation"
COSTS = ROOT / "benchmarks" / "scale.md"
RESULTS = ROOT / "docs" / "results"
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))
WITHOUT_CODE = {"README.md"}
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")


def text_of(page: str) -> str:
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
    assert is_among("0.63", [0.6266])
    assert is_among("6.1", [0.0614])
    assert not is_among("0.64", [0.6266])
    assert DECIMAL.findall("0.63 and $0.5$, not v1.2.3") == ["0.63", "0.5"]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", text_of(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (FOLDER / name).resolve()
        assert path.exists() or path.parent.parent == ROOT / "papers", target
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
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = importlib.import_module("parts_agree")
    measured = json.loads((script.RESULTS / "parts_agree.json").read_text(encoding="utf-8"))
    table = script.table(measured["differences"])
    assert f"{script.START}\n{table}\n{script.END}" in COSTS.read_text(encoding="utf-8")


def test_every_page_is_in_the_index() -> None:
    assert set(re.findall(r"\((\w[\w-]*\.md)\)", text_of("README.md"))) == set(PAGES) - {"README.md"}


def test_findings_are_those_of_their_studies() -> None:
    """Each decimal number of a finding stands on the page that its row links to."""
    text = (RESULTS / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| \[[^\]]+\]\(([^)]+)\) \|$", text, flags=re.MULTILINE)
    assert len(rows) == 15
    for finding, size, target in rows:
        for number in DECIMAL.findall(finding + size):
            found = (RESULTS / target).read_text(encoding="utf-8")
            assert re.search(rf"(?<![\d.]){number}(?!\d)", found), (target, number)
    assert len(text.split()) <= 500


def test_advice_on_focal_loss_is_so() -> None:
    """With a temperature by likelihood FLSD-53 has the lower ECE in no study."""
    advice = (ROOT / "docs" / "start" / "which-calibrator.md").read_text(encoding="utf-8")
    assert "FLSD-53 [never had a lower ECE]" in advice
    asked = [
        verdicts(study, studies.kept_frames(study), [claim]).verdict
        for study in studies.names()
        for claim in read_claims(study)
        if claim["id"] == "by-likelihood"
    ]
    assert len(asked) >= 5
    assert set(pd.concat(asked)) == {"does not hold", "undecided"}
