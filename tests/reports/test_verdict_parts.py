"""What holds and what does not, in the report and the terminal."""

from __future__ import annotations

import dataclasses
import html
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from calibrant.evaluation.result import Evaluation, Part
from calibrant.reports import render, render_comparison
from calibrant.reports.html import report_text

HOLDS = Part(name="top label", holds=True, p_value=0.4, adjusted_p=0.4, num_draws=1000)
FAILS = Part(name="classes", holds=False, p_value=0.000999, adjusted_p=0.003, num_draws=1000)


@pytest.fixture
def in_part(evaluation_of: Callable[..., Evaluation]) -> Evaluation:
    """Calibrated in part."""
    found = evaluation_of("multiclass")
    first = dataclasses.replace(found.arms[0], parts=(HOLDS, FAILS))
    rows = tuple(
        dataclasses.replace(row, adjusted_p=0.004 if place else 0.5, mean_probability=0.2 + place / 100)
        for place, row in enumerate(first.classes[:2])
    )
    verdict = dataclasses.replace(
        found.verdict,
        direction="calibrated in part",
        headline="Partly miscalibrated: overall confidence is fine, class probabilities are not.",
    )
    arms = tuple(dataclasses.replace(arm, classes=arm.classes[:2]) for arm in found.arms[1:])
    return dataclasses.replace(found, arms=(dataclasses.replace(first, classes=rows), *arms), verdict=verdict)


def test_the_report_says_what_holds(in_part) -> None:
    """Below the first screen, each part with mark, words and p-value; the verdict's mark has its colour."""
    text = report_text(in_part)
    top, _, rest = text.partition("</header>")
    assert '<header class="calibrated-in-part">' in top
    assert "◐</span>" in top
    assert re.search(r"✓</span> top label <[^>]*>passes, p = 0.4<", rest)
    assert re.search(r"✗</span> classes <[^>]*>fails, p ≤ 0.003<", rest)
    assert re.search(r'title="[^"]*Holm[^"]*">p adjusted for 2 tests<', rest)
    assert ".calibrated-in-part .mark" in text


def test_classes_that_are_off_stand_out(in_part) -> None:
    """Their mean probability is bold in the table, and below it stands what that means."""
    text = report_text(in_part)
    assert "<td><strong>0.2100</strong></td>" in text
    assert "<td>0.2000</td>" in text
    assert "Average probabilities in bold differ from the actual rate by more than noise" in text


def test_the_terminal_has_three_states(in_part) -> None:
    """Yellow for what is calibrated in part, green for all of it, and marks that differ without colour."""
    first_lines: dict[Any, str] = {}
    for direction in ("calibrated", "calibrated in part", "undecided"):
        found = dataclasses.replace(
            in_part, verdict=dataclasses.replace(in_part.verdict, direction=direction)
        )
        out = io.StringIO()
        render(found, Console(file=out, width=100, force_terminal=True, color_system="standard"))
        first_lines[direction] = out.getvalue().splitlines()[0]
    assert "\x1b[1;32m● " in first_lines["calibrated"]
    assert "\x1b[1;33m◐ " in first_lines["calibrated in part"]
    assert "\x1b[1m? " in first_lines["undecided"]


def test_comparisons_say_who_errs_beyond_chance(comparison_of) -> None:
    """Each model with the parts that do not hold; where none is known, nothing is said."""
    comparison = comparison_of("multiclass")

    def said(*parts: tuple[Part, ...]) -> tuple[str, str]:
        models = tuple(
            dataclasses.replace(model, parts=each)
            for model, each in zip(comparison.models, parts, strict=False)
        )
        found = dataclasses.replace(comparison, models=models)
        out = io.StringIO()
        render_comparison(found, Console(file=out, width=300))
        return out.getvalue(), report_text(found)

    names = [model.name for model in comparison.models]
    for text in said((HOLDS, FAILS), (HOLDS,)):
        shown = html.unescape(text).replace("<wbr>", "")
        assert f"Fails the calibration test: {names[0]} (class probabilities). Passes: {names[1]}." in shown
    for text in said((HOLDS,), (HOLDS,)):
        assert "Every model passes the calibration test on all samples together." in text
    for text in said((), ()):
        assert "the calibration test:" not in text.lower()
        assert "passes the calibration test" not in text
