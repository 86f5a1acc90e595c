"""Choosing among losses by validation likelihood."""

import json

import pytest

from calibrant_lab.training import alternatives, select
from refusals import refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", ["a", "b"]),
        ("focal(gamma=1|2|3)", ["focal(gamma=1)", "focal(gamma=2)", "focal(gamma=3)"]),
        (
            "f(a=1|2, b=(3, 4)|(5,))|g",
            ["f(a=1, b=(3, 4))", "f(a=1, b=(5,))", "f(a=2, b=(3, 4))", "f(a=2, b=(5,))", "g"],
        ),
        ("f(norm='l1'|'l|2')", ["f(norm='l1')", "f(norm='l|2')"]),
    ],
)
def test_alternatives_are_spelled_out(text, expected) -> None:
    assert alternatives(text) == expected


@pytest.mark.parametrize("text", ["focal(gamma=1)", "a|a", "", "f(a=1"])
def test_a_choice_needs_two(text) -> None:
    refused("--select must", alternatives, text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the second choice finds the runs of the first."""
    return tmp_path_factory.mktemp("selection")


@pytest.mark.usefixtures("short_trainings")
@pytest.mark.parametrize("by", ["after", "before"])
def test_the_lowest_likelihood_wins(recipe, folder, by) -> None:
    """The chosen loss has the lowest NLL of its kind, and the file says so; done runs are not done again."""
    heard: list[str] = []
    short = recipe.with_settings(["training.epochs=2"])
    found = select(short, "focal(gamma=1|5)|cross-entropy", folder, by=by, begin=heard.append)
    assert heard == ["focal(gamma=1)", "focal(gamma=5)", "cross-entropy"]
    nlls = [each.nll_after if by == "after" else each.nll_before for each in found.candidates]
    assert found.chosen is found.candidates[nlls.index(min(nlls))]
    content = json.loads((folder / "selection.json").read_text())
    assert content["chosen"] == found.chosen.loss
    assert by in content["by"]
    folders = [each["folder"] for each in content["candidates"]]
    assert folders == ["focal-gamma1", "focal-gamma5", "cross-entropy"]
    page = (folder / "report.html").read_text()
    assert "The choice" in page
    assert f"{content['chosen']} has the lowest validation NLL {by} temperature scaling" in page
    assert "What the runs differ in" in page
