"""An evaluation at a prompt, in a notebook, as a data frame, and its calibrators."""

import html
import io
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from calibrant import Evaluation, InputError, Predictions, apply, compare, evaluate
from calibrant.evaluation import check, monitor
from calibrant.evaluation.result import ComparedModel, Comparison, Estimate
from calibrant.reports import render, render_comparison


@pytest.fixture(scope="module")
def found() -> Evaluation:
    """Of an over-confident model of two classes."""
    rng = np.random.default_rng(0)
    log_odds = rng.normal(size=300)
    labels = rng.random(300) < 1 / (1 + np.exp(-log_odds))
    predictions = Predictions(logits=4 * log_odds, labels=labels.astype(int))
    return evaluate(predictions, calibrators=["temperature"], bootstrap=20, null_draws=50)


def test_a_notebook_shows_the_first_screen(found: Evaluation) -> None:
    page = found._repr_html_()
    text = html.unescape(re.sub("<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL))
    assert found.verdict.short in text
    assert found.verdict.line in " ".join(text.split())
    assert page.count("<svg") == 2
    assert all(name in text for name in ("ECE, positive class", "Log loss", "Accuracy", "Before", "After"))
    assert not re.search("https?:|<script|<link|<h1", page)


def test_a_notebook_shows_several_labels() -> None:
    probs = np.random.default_rng(0).random((200, 3))
    labels = (np.random.default_rng(1).random((200, 3)) < probs**2).astype(int)
    found = evaluate(Predictions(probs=probs, labels=labels), bootstrap=20, null_draws=50)
    assert "Uncoloured marks are within" in found._repr_html_()


def test_two_pieces_share_no_identifier(found: Evaluation) -> None:
    pages = [each._repr_html_() for each in (found, replace(found, num_test=299))]
    first, other = (set(re.findall(r' id="([^"]+)"', page)) for page in pages)
    assert first
    assert not first & other
    for page, known in zip(pages, (first, other), strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", page)) <= known


def test_printing_shows_what_the_terminal_shows(found: Evaluation) -> None:
    """The text of the command, and two lines for ``repr``."""
    out = io.StringIO()
    render(found, Console(file=out, width=80))
    assert str(found).split() == out.getvalue().split()
    assert repr(found).splitlines() == [
        "Evaluation(binary, 300 test samples; arms: uncalibrated, temperature)",
        f"  {found.verdict.short}",
    ]


def test_comparisons_and_monitorings_are_short_as_well() -> None:
    """Two lines for ``repr``; a comparison prints what the terminal shows."""
    probs = np.random.default_rng(0).random(200)
    given = Predictions(probs=probs, labels=(probs > 0.5).astype(int))
    few: dict[str, Any] = {"bootstrap": 20, "null_draws": 50}
    compared = compare({"one": given, "other": given.replace_probs(probs**2)}, **few)
    out = io.StringIO()
    render_comparison(compared, Console(file=out, width=80))
    assert str(compared).split() == out.getvalue().split()
    assert repr(compared).splitlines() == [
        "Comparison(binary, 200 test samples; models: one, other)",
        f"  {compared.short}",
    ]
    watched = monitor(given, np.arange(200), window=50, bootstrap=20)
    assert repr(watched).splitlines() == [
        "Monitoring(binary, 4 windows, 200 samples, 200 with labels)",
        f"  {watched.tests[0].sentence}",
    ]
    gate = check(given, {"ece": 0.5}, bootstrap=20)
    assert repr(gate) == f"GateResult(passed, binary, 200 samples)\n  {gate.checks[0].sentence}"


def test_an_arm_has_its_calibrator(found: Evaluation) -> None:
    calibrator = found.arm("temperature").calibrator
    assert calibrator is not None
    assert calibrator.fit_result_.parameters == found.arm("temperature").parameters
    assert found.arm("uncalibrated").calibrator is None
    assert "calibrator = evaluation.arm('temperature').calibrator" in str(found)
    new = Predictions(logits=[2.0, -1.0])
    assert torch.equal(apply(calibrator, new).probs, calibrator.predict_proba(new.scores))


def test_files_hold_no_calibrator(found: Evaluation) -> None:
    """What was read from JSON says so in a sentence, and is equal in all else."""
    text = found.to_json()
    assert "fitted" not in json.loads(text)["arms"][1]
    read = Evaluation.from_json(text)
    assert read == found
    assert read.arm("uncalibrated").calibrator is None
    with pytest.raises(InputError, match=r"is not in the file .*`calibrant\.fit\(predictions, method='temp"):
        _ = read.arm("temperature").calibrator


def test_a_calibrator_knows_the_classes() -> None:
    """So that it refuses columns in another order, and serves confidences where it was fitted on them."""
    rng = np.random.default_rng(0)
    probs, names = rng.dirichlet([1, 1, 1], 60), ["a", "b", "c"]
    few: dict[str, Any] = {"calibrators": ["temperature"], "bootstrap": 20, "null_draws": 50}
    found = evaluate(probs=probs, labels=rng.integers(0, 3, 60), class_names=names, **few)
    calibrator = found.arm("temperature").calibrator
    assert calibrator is not None
    assert calibrator.class_names_ == ("a", "b", "c")
    with pytest.raises(InputError, match="bring the columns into that order"):
        apply(calibrator, Predictions(probs=probs, class_names=names[::-1]))
    answers = {"confidence": probs.max(axis=1), "correct": rng.integers(0, 2, 60)}
    calibrator = evaluate(**answers, **few | {"calibrators": ["platt"]}).arm("platt").calibrator
    assert calibrator is not None
    assert apply(calibrator, Predictions(**answers)).kind == "top_label"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_the_rows(found, library) -> None:
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
