"""Summaries in Markdown: what the terminal's table shows, and nothing that a name could add."""

import dataclasses
from collections.abc import Callable

import pytest

from calibrant.evaluation.result import Check, Comparison, Evaluation
from calibrant.reports import tables
from calibrant.reports.exports import markdown_text

FIRST = "<!-- calibrant summary -->"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def blocks(text: str) -> list[list[str]]:
    """The lines of each block; blocks are apart by one blank line."""
    return [block.splitlines() for block in text.removesuffix("\n").split("\n\n")]


@pytest.mark.parametrize("kind", ["multiclass", "binary", "multilabel", "top_label"])
def test_an_evaluation_has_the_rows_of_the_terminal(
    kind: str, evaluation_of: Callable[..., Evaluation]
) -> None:
    arms = ("uncalibrated",) if kind == "top_label" else ("uncalibrated", "temperature")
    found = evaluation_of(kind, arms=arms, recommended=arms[-1])
    checks = tuple(Check(name=name, passed=name == "Classes", text="off") for name in ("Overall", "Classes"))
    found = dataclasses.replace(found, verdict=dataclasses.replace(found.verdict, checks=checks))
    text = markdown_text(found, files={"report": "r.html", "numbers": "n.json", "JUnit": None})
    first, *others = blocks(text)
    assert first[0] == FIRST
    assert first[1].startswith("### ")
    assert all(block and all(block) for block in others)
    assert ["- **✗** Overall: off", "- **✓** Classes: off"] in others
    (table,) = (block for block in others if block[0].startswith("|"))
    assert {len(cells(line)) for line in table} == {len(arms) + 1}
    rows = tables.brief_rows(found)
    assert [cells(line)[0].replace("\\", "") for line in table[2:]] == [row.title.strip() for row in rows]
    for line, row in zip(table[2:], rows, strict=True):
        for cell, brief in zip(cells(line)[1:], row.cells, strict=False):
            assert cell == " ".join(filter(None, (brief.value, brief.interval, brief.mark)))
    assert others[-1] == ["report: `r.html`, numbers: `n.json`"]
    assert (["```shell", *found.verdict.commands, "```"] in others) == bool(found.verdict.commands)


def test_a_comparison_has_a_row_per_model(comparison_of: Callable[..., Comparison]) -> None:
    found = comparison_of()
    titles, rows = tables.brief_models(found)
    (table,) = (block for block in blocks(markdown_text(found)) if block[0].startswith("|"))
    assert cells(table[0])[1:-1] == titles
    assert [cells(line)[0].replace("\\", "") for line in table[2:]] == [row.title for row in rows]


def test_names_add_no_markup_and_no_folders(comparison_of: Callable[..., Comparison]) -> None:
    found = comparison_of()
    name = "a|b <img> *c* [d](http://e) _f_ my_g"
    model = dataclasses.replace(found.models[0], name=name)
    warned = ("in /home/ann/secret/p.npz\n# no heading", "one ` alone <b>")
    text = markdown_text(dataclasses.replace(found, models=(model, *found.models[1:]), warnings=warned))
    assert r"| a\|b \<img> \*c\* [d\](http://e) \_f\_ my_g |" in text
    assert "secret" not in text
    assert "\nwarning: in p.npz # no heading\n" in text
    assert r"one \` alone \<b>" in text
