"""Laws of every study: its page is that of its results, and prose, claims and verdicts agree with them."""

import re

import pytest

from papers import studies
from papers.analysis import CODE, HERE, SLOT, filled, read_claims, strange_numbers, verdicts

MOST_WORDS, MOST_SHOWN = 400, 800  # of prose; with tables, without folded text
each_study = pytest.mark.parametrize("name", studies.names())


def test_pages_are_those_of_their_results(every_row) -> None:
    """``python -m papers NAME --page`` would change nothing; numbers of the prose are in tables.

    One test for all, so that one process computes every row.
    """
    for name in studies.names():
        page, rows = (
            (HERE / name / "page.md").read_text(encoding="utf-8"),
            every_row[every_row.study.eq(name)],
        )
        tables = studies.study(name).tables(studies.kept_frames(name))
        assert page == filled(page, tables, rows), name
        assert strange_numbers(page, tables, rows) == [], name


@each_study
def test_page_is_short_and_has_its_parts(name) -> None:
    """A question, an answer, what it means, what was asked, how it differs, and the command."""
    page = (HERE / name / "page.md").read_text(encoding="utf-8")
    assert page.startswith("# ")
    assert page.partition("\n")[0].endswith("?")
    for part in ("**What this means for you**", "<details>", f"python -m papers {name.replace('_', '-')}"):
        assert part in page, part
    if (HERE / name / "claims.toml").is_file():
        assert "<!-- claims -->" in page
        assert "**How it differs from the paper" in page
    prose = CODE.sub("", SLOT.sub("", page))
    assert len(prose.split()) <= MOST_WORDS
    assert len(CODE.sub("", page).split()) <= MOST_SHOWN
    for sentence in re.split(r"(?<=[.?!])\s", prose):
        assert len(re.findall(r"\d+\.\d+", sentence)) <= 4, sentence


@each_study
def test_figures_are_there(name) -> None:
    page = (HERE / name / "page.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"!\[.*?\]\(([\w-]+\.svg)\)", page))
    assert shown == {path.name for path in (HERE / name).glob("*.svg")}


@each_study
def test_a_claim_turns_with_its_results(name) -> None:
    """Where every value has the other sign, what held fails, and the reverse; decided is p below 0.05."""
    frames, rows = studies.kept_frames(name), studies.kept_rows(name)
    if len(rows):
        assert rows.p.dropna().between(0, 1).all()
        assert (rows.p[rows.verdict.ne("undecided")] < 0.05).all()
    turned = {"holds": "does not hold", "does not hold": "holds", "undecided": "undecided"}
    for claim in read_claims(name):
        if claim.get("than", 0) == 0 and claim["expect"] != "within" and "all_of" not in claim:
            value, frame = claim.get("value", "value"), frames[claim["frame"]]
            other = {claim["frame"]: frame.assign(**{value: -frame[value]})}
            before, after = rows[rows.claim.eq(claim["id"])].verdict, verdicts(name, other, [claim]).verdict
            assert after.tolist() == before.map(turned).tolist(), claim["id"]
