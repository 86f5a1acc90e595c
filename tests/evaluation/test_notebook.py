"""An evaluation in a notebook and as a data frame."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from calibrant import Evaluation, Predictions, evaluate
from calibrant.evaluation import quantities
from calibrant.evaluation.notebook import TITLES
from calibrant.evaluation.result import ComparedModel, Comparison, Estimate


@pytest.fixture(scope="module")
def found() -> Evaluation:
    """Of an over-confident model of two classes."""
    rng = np.random.default_rng(0)
    log_odds = rng.normal(size=300)
    labels = rng.random(300) < 1 / (1 + np.exp(-log_odds))
    predictions = Predictions(logits=4 * log_odds, labels=labels.astype(int))
    return evaluate(predictions, calibrators=["temperature"], bootstrap=20, null_draws=50)


def test_a_notebook_shows_verdict_diagrams_and_numbers(found) -> None:
    """The short verdict, a diagram and a column for each arm, and no link to anything outside."""
    page = found._repr_html_()
    root = ET.fromstring(page)
    text = " ".join(root.itertext())
    assert found.verdict.short in text
    assert found.verdict.line in text
    assert len(root.findall(".//svg")) == len(root.findall(".//thead//th")) - 1 == 2
    curve = found.arms[0].curves[found.verdict.about == "ece"]
    filled = sum(value is not None for value in curve.accuracy)
    assert len(root.findall(".//svg")[0].findall("circle")) == filled
    assert f"{found.arms[0].metrics['nll'].value:.4f}" in text
    assert not re.search("https?:|<script", page)
    # Twelve words at most, and the line has no interval.
    assert len(found.verdict.short.replace("\u00a0", "").split()) <= 12
    assert " to " in found.verdict.line
    assert not re.search(r"\(\d", found.verdict.line)


def test_titles_are_those_of_the_roster() -> None:
    """What the table calls a metric is what reports call it, but for saying that it is of the top label."""
    for key, title in TITLES.items():
        kind = "binary" if key.startswith("event_") else "multiclass"
        known = quantities.find(key, kind)
        assert known.title == title


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_the_rows(found, library) -> None:
    """One row for each arm and metric, under the names of the rows."""
    frame = found.to_frame(library=library)  # pyright: ignore[reportArgumentType]
    rows = found.rows()
    assert list(frame.columns) == list(rows[0])
    assert len(frame) == len(rows)
    assert list(frame["metric"]) == [row["metric"] for row in rows]


def test_a_comparison_is_a_frame_as_well(found) -> None:
    """One row for each model and metric; the first model has no difference from itself."""
    model = ComparedModel(
        name="a", source=None, num_test=9, metrics=found.arms[0].metrics, difference={}, null=(), curves=()
    )
    other = replace(model, name="b", difference={"nll": Estimate(value=0.5, low=0.25, high=0.75)})
    compared = Comparison(
        schema_version=1, kind=found.kind, paired=True, settings=found.settings, models=(model, other),
        verdict="", notes=(), versions={}, command=None,
    )  # fmt: skip
    frame = compared.to_frame(library="pandas")
    assert len(frame) == 2 * len(model.metrics)
    known = frame.dropna(subset=["difference"])
    assert known[["model", "metric", "difference_high"]].to_numpy().tolist() == [["b", "nll", 0.75]]
