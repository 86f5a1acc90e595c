"""The table by group, as it is shown."""

import io

import numpy as np
import pytest
from rich.console import Console

from calibrant import Predictions, evaluate
from calibrant.evaluation import Evaluation
from calibrant.reports import render, words
from calibrant.reports.html import report_text
from calibrant.reports.tables import group_pairs
from undrawn import drawing_no_diagrams

TINY = "age=eighty years and older; sex=f"


@pytest.fixture(scope="module")
def found() -> Evaluation:
    """An over-confident group, an honest one, and a small one; and a name to escape."""
    rng = np.random.default_rng(0)
    groups = np.repeat(["<bad>", "good", TINY], [700, 700, 8])
    logits = rng.normal(size=(len(groups), 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    logits[:700] *= 3
    split = np.arange(len(groups)) % 5 > 0
    return evaluate(
        Predictions(logits=logits, labels=labels, groups=groups, split=split),
        bootstrap=50,
        null_draws=50,
        calibrators=["temperature"],
    )


def test_sure_findings_come_first(found) -> None:
    """Then the others by the size of the gap, those too small to tell last."""
    pairs = group_pairs(found)
    assert [(pair.before.name, pair.real, pair.before.vague) for pair in pairs] == [
        ("<bad>", True, False),
        ("good", False, False),
        (TINY, False, True),
    ]


@pytest.mark.parametrize("width", [60, 120])
def test_the_terminal_shows_them(found, width) -> None:
    console = Console(file=io.StringIO(), width=width)
    render(found, console)
    text = console.file.getvalue()
    assert all(len(line) <= width for line in text.splitlines())
    row = next(line for line in text.splitlines() if line.startswith("<bad>"))
    assert row.split()[2] == words.brief(found.arms[0].groups[0].predicted, "accuracy")[0]
    assert any(line.startswith("sex=f ") for line in text.splitlines())
    flat = " ".join(text.split())
    assert "*: above noise, corrected for 3 groups (Holm)" in flat
    assert "?: too few samples to show an error of 5 points." in flat


@drawing_no_diagrams()
def test_the_report_shows_them(found) -> None:
    text = report_text(found)
    assert '<h2 id="groups">Groups</h2>' in text
    assert '<th scope="row" class="name">&lt;bad&gt;</th>' in text
    assert f'<th scope="row" class="name">{TINY} <span class="tag">small</span></th>' in text
    plain = evaluate(Predictions(confidence=[0.5, 0.9, 0.7], correct=[0, 1, 1]), bootstrap=50, null_draws=50)
    assert '<h2 id="groups">' not in report_text(plain)
