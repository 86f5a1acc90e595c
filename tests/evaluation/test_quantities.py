"""What is declared among the quantities is measured, shown, gated and offered everywhere."""

import ast
import importlib
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import typer
from rich.console import Console

import calibrant
from calibrant import InputError, metrics
from calibrant.evaluation import check, compare, evaluate, quantities
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.quantities import ECE, L2_ECE, SMCE, binned
from calibrant.evaluation.quantity import EventError, Gate, Quantity, Shown
from calibrant.evaluation.result import Evaluation
from calibrant.predictions import Kind, Predictions
from calibrant.reports import render, render_comparison
from calibrant.reports.exports import junit_text
from calibrant.reports.html import report_text
from undrawn import drawing_no_diagrams

KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel", "top_label")
FEW: dict[str, Any] = {"bootstrap": 30, "null_draws": 40, "calibrators": ["temperature"]}
SOURCE = Path(calibrant.__file__).parent
KEYS = [each.key for each in quantities.QUANTITIES]


def bias(confidences: Any, outcomes: Any, weights: Any, _num_bins: int) -> float:
    return float(abs(np.average(confidences - outcomes, weights=weights)))


PLANTED = Quantity(
    key="planted_bias",
    title="Planted bias",
    meaning="How far the mean confidence is off, planted by a test.",
    section="Certainty",
    better="lower",
    computed=EventError(bias, null=True),
    default=False,
    shown=Shown(comparison=0),
    event=Shown(terminal=True),
    gate=Gate("planted bias", help="The most planted bias."),
)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Quantity:
    """One more quantity, which is measured where it is asked for."""
    monkeypatch.setattr(quantities, "QUANTITIES", (*quantities.QUANTITIES, PLANTED))
    return PLANTED


@pytest.fixture
def command_line(planted: Quantity) -> Iterator[dict[str, Any]]:
    """The parameters of the commands, by command and name, as they are with the planted quantity."""
    del planted
    names = ("evaluate", "compare", "check")
    modules: list[ModuleType] = [
        importlib.import_module(f"calibrant.cli.{name}") for name in ("terminal", *names)
    ]
    app = typer.Typer()
    for name, module in zip(("", *names), map(importlib.reload, modules), strict=True):
        if name:
            app.command(name)(getattr(module, name))
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    yield {name: {param.name: param for param in commands[name].params} for name in names}
    # The fixture that planted it takes it away after this one ends.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            quantities, "QUANTITIES", tuple(each for each in quantities.QUANTITIES if each is not PLANTED)
        )
        for module in modules:
            importlib.reload(module)


def in_terminal(draw: Callable[[Any, Console], None], found: Any) -> str:
    out = io.StringIO()
    draw(found, Console(file=out, width=200))
    return out.getvalue()


@drawing_no_diagrams()
def test_a_planted_quantity_is_in_the_data_and_in_what_is_drawn(planted, made) -> None:
    """Metrics, changes, nulls, JSON, rows, report and terminal have it, and no other file was touched."""
    found = evaluate(made("multiclass", 600, sharpness=3), metrics=[planted.key], **FEW)
    first, repaired = found.arms
    estimate = first.metrics[planted.key]
    assert estimate.value == pytest.approx(abs(first.metrics["gap"].value or 0), abs=1e-12)
    assert estimate.low < (estimate.value or 0) < (estimate.high or 0)
    assert repaired.change[planted.key].low is not None
    assert planted.key in {null.metric for null in first.null}
    assert found.settings.metrics == (planted.key,)
    text = found.to_json()
    assert json.loads(text)["arms"][0]["metrics"][planted.key]["value"] == estimate.value
    assert Evaluation.from_json(text) == found
    assert [row["arm"] for row in found.rows() if row["metric"] == planted.key] == [
        arm.name for arm in found.arms
    ]
    page = report_text(found)
    assert f'data-metric="{planted.key}"' in page
    assert planted.meaning in page
    assert planted.title in in_terminal(render, found)


def test_a_planted_quantity_of_events_has_both_forms(planted, made) -> None:
    found = evaluate(made("binary", 600, shift=2), metrics=[planted.key], **FEW)
    assert {planted.key, planted.event_key} <= set(found.arms[0].metrics)
    shown = in_terminal(render, found)
    assert planted.title in shown
    assert f"{planted.title}, top label" in shown


def test_a_planted_quantity_is_compared(planted, made) -> None:
    """It is the first column of the models, as declared; what is asked for stands beside the ECE."""
    models = [("a", made("multiclass", 400)), ("b", made("multiclass", 400, sharpness=3))]
    found = compare(models, metrics=[planted.key], bootstrap=30, null_draws=40)
    assert found.models[1].difference[planted.key].value is not None
    header = next(
        line for line in in_terminal(render_comparison, found).splitlines() if planted.title in line
    )
    assert header.index(planted.title) < header.index("ECE")
    found = compare(models, metrics=["smooth_ece"], bootstrap=30, null_draws=40)
    out = io.StringIO()
    render_comparison(found, Console(file=out, width=60))
    assert re.search(r"ECE +smECE", out.getvalue())
    assert planted.key not in found.models[0].metrics


def test_a_planted_quantity_is_gated(planted, made) -> None:
    """As a limit and against a baseline; where a baseline is judged on other samples it is refused."""
    bad, good = made("multiclass", 1500, sharpness=4), made("multiclass", 1500)
    found = check(bad, {planted.key: 0.01}, bootstrap=200)
    assert (found.passed, found.checks[0].metric) == (False, planted.key)
    assert found.checks[0].sentence.startswith("The planted bias is 0.")
    assert f'name="{planted.key} at most 0.01"' in junit_text(found)
    assert check(good, {planted.key: 0.05}, bootstrap=200).passed
    against = check(bad, baseline=good, baseline_metrics=[planted.key], bootstrap=200)
    assert (against.passed, against.checks[0].outcome) == (False, "fail")
    with pytest.raises(InputError, match="planted_bias needs a baseline on the same samples"):
        check(bad, baseline=made("multiclass", 900), baseline_metrics=[planted.key], bootstrap=20)


def test_a_planted_quantity_is_an_option(command_line, planted) -> None:
    """``check`` can limit it, and every help text that lists quantities names it."""
    option = command_line["check"][planted.key]
    assert option.opts == ["--max-planted-bias"]
    assert (option.metavar, option.help) == ("NUMBER", "The most planted bias.")
    for command in ("evaluate", "compare"):
        assert planted.key in command_line[command]["metric"].help


def test_a_planted_default_needs_no_asking(monkeypatch, made) -> None:
    """What is shown by default is measured of every evaluation, and offered by no option."""
    usual = replace(PLANTED, default=True, shown=Shown(terminal=True))
    monkeypatch.setattr(quantities, "QUANTITIES", (usual, *quantities.QUANTITIES))
    found = evaluate(made("multiclass", 300), **FEW)
    assert next(iter(found.arms[0].metrics)) == usual.key
    assert usual.title in in_terminal(render, found)
    assert usual.key not in quantities.optional_keys()


# Where a key is another thing's name too.
OTHER_THINGS = {
    "cli/evaluate.py": {"entropy"},  # a score that samples are told apart by
    "evaluation/result.py": {"slope", "accuracy", "mean_confidence"},  # in older versions of its JSON
    "evaluation/out_of_distribution.py": {"auroc", "entropy"},  # of telling samples apart; such a score
    "evaluation/resampling/events.py": {"slope", "intercept"},  # the parameters of a line
    "evaluation/phrases.py": {"slope", "intercept"},  # the parameters of Platt scaling
    "reports/file_figures.py": {"nll"},  # an objective
    "reports/tables.py": {"accuracy"},  # the head of a column
    "reports/pictures.py": {"auroc", "accuracy"},  # of telling samples apart; a field of a curve
}


def strings_of(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_no_key_is_written_anywhere_else() -> None:
    """Whoever speaks of a quantity imports its declaration: there are no lists of names to keep in step."""
    rooms = [*(SOURCE / "evaluation").rglob("*.py"), *(SOURCE / "reports").glob("*.py")]
    rooms += [SOURCE / "cli" / f"{name}.py" for name in ("evaluate", "check", "compare")]
    rooms = [path for path in rooms if path.name != "quantities.py"]
    keys = {*KEYS, *(each.event_key for each in quantities.QUANTITIES)}
    found = {path.relative_to(SOURCE).as_posix(): strings_of(path) & keys for path in rooms}
    stray = {name: sorted(said - OTHER_THINGS.get(name, set())) for name, said in found.items()}
    assert {name: said for name, said in stray.items() if said} == {}
    assert len(rooms) > 50


def test_columns_of_the_comparison_have_places_of_their_own() -> None:
    """No two default quantities claim one place; a new one that is asked for needs an entry in ``PUBLIC``."""
    assert len(set(KEYS)) == len(KEYS) > 20
    shown = [part for each in quantities.QUANTITIES for part in (each.shown, each.event) if part is not None]
    ranks = [part.comparison for part in shown if part.comparison is not None]
    assert len(set(ranks)) == len(ranks) > 1
    assert set(PUBLIC) == set(quantities.optional_keys())


@pytest.mark.parametrize("each", quantities.QUANTITIES, ids=KEYS)
def test_declarations_are_whole(each) -> None:
    """Named after its key; a meaning is sentences, bounds are ordered, and what is gated says which way."""
    assert getattr(quantities, each.key.upper()) is each
    assert re.fullmatch(r"(?!event_)[a-z0-9_]+", each.key)
    assert each.meaning.endswith(".")
    assert each.meaning[0].isupper()
    assert each.bounds[0] < each.bounds[1]
    if each.gate is not None:
        assert each.better in {"lower", "higher"}
    assert each.default or each.shown == Shown()  # what is asked for is shown anyway
    assert {form.key for kind in KINDS for form in each.forms(kind)} <= {each.key, each.event_key}


@pytest.mark.parametrize("kind", KINDS)
def test_the_better_way_is_that_of_better_predictions(kind, made) -> None:
    """Labels at random, or logits too flat or too high, are worse the way that a quantity says is worse."""
    honest, *off = (made(kind, 600, **how) for how in ({}, {"sharpness": 0.2}, {"shift": 2.0}))
    if kind == "top_label":
        wrong = Predictions(confidence=honest.confidence, correct=~honest.correct)
    else:
        wrong = Predictions(logits=honest.scores, labels=honest.labels.roll(1, 0), kind=kind)
    good, *bad = (
        reduce_predictions(each, 15, metrics=quantities.optional_keys()) for each in (honest, *off, wrong)
    )
    seen = 0
    for form in (form for each in quantities.QUANTITIES for form in each.forms(kind)):
        if form.better in {"lower", "higher"} and form.key in good.values:
            worst = max(form.sign * each.values[form.key] for each in bad)
            assert worst > form.sign * good.values[form.key], form.key
            seen += 1
    assert seen > 8


# What each quantity that is asked for must equal: a function of ``probs`` and ``labels``.
PUBLIC: dict[str, Callable[..., Any]] = {
    "smooth_ece": metrics.smooth_ece,
    "debiased_ece": lambda p, y: metrics.expected_calibration_error(p, y, debias=True),
    "debiased_l2_ece": lambda p, y: metrics.expected_calibration_error(p, y, norm="l2", debias=True),
    "kolmogorov_smirnov": lambda p, y: np.mean(metrics.kolmogorov_smirnov_test(p, y).statistic.numpy()),
    "over_confidence_error": metrics.over_confidence_error,
    "under_confidence_error": metrics.under_confidence_error,
}


@pytest.mark.parametrize("kind", KINDS)
def test_quantities_that_are_asked_for_are_those_of_the_metrics(kind, made) -> None:
    """Top label, positive class, or the mean over the labels, to rounding; with interval and change."""
    predictions = made(kind, 160, 3, sharpness=2, split=np.arange(160) % 2)
    asked = quantities.optional_keys()
    found = evaluate(predictions, metrics=asked, **{**FEW, "bootstrap": 8, "null_draws": 10})
    test = predictions.test
    probs, labels = (test.confidence, test.correct) if kind == "top_label" else (test.probs, test.labels)
    first = found.arms[0].metrics
    for key, function in PUBLIC.items():
        shown = first[f"event_{key}" if kind == "binary" else key]
        assert shown.value == pytest.approx(float(function(probs, labels)), abs=1e-9)
        assert shown.low is not None
    if kind == "binary":
        top = torch.maximum(probs, 1 - probs), (probs > 0.5).int() == labels
        assert first["smooth_ece"].value == pytest.approx(float(metrics.smooth_ece(*top)), abs=1e-9)
    for arm in found.arms[1:]:
        assert all(arm.change[key].low is not None for key in asked)


def test_what_no_kernel_resamples_is_resampled_alike(monkeypatch, made) -> None:
    """Called once for each resample, the functions of ECE, L2 ECE and smCE give the kernels' intervals."""
    slow = [
        replace(each, key=f"slow_{each.key}", computed=replace(each.computed, kernel=None), event=None)
        for each in (ECE, L2_ECE, SMCE)
        if isinstance(each.computed, EventError)
    ]
    monkeypatch.setattr(quantities, "QUANTITIES", (*quantities.QUANTITIES, *slow))
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 3, 300).astype(float)
    for more in ({}, {"weights": weights}):
        predictions = made("multiclass", 300, sharpness=2, **more)
        first = evaluate(predictions, calibrators=[], bootstrap=40, intervals="centred").arms[0]
        for each in slow:
            ours, theirs = first.metrics[each.key], first.metrics[each.key.removeprefix("slow_")]
            found, expected = ((e.value, e.low, e.high) for e in (ours, theirs))
            assert found == pytest.approx(expected, abs=1e-12), each.key


def test_chance_without_a_kernel_is_chance_with_one(monkeypatch, made) -> None:
    """The errors of drawn outcomes agree in the mean with those of the kernel, to 4 standard errors."""
    error = EventError(binned("width", "l1"), null=True)
    slow = replace(ECE, key="slow_ece", computed=error, event=None)
    monkeypatch.setattr(quantities, "QUANTITIES", (*quantities.QUANTITIES, slow))
    found = evaluate(made("multiclass", 400), calibrators=[], bootstrap=10, null_draws=400).arms[0]
    nulls = {null.metric: null for null in found.null}
    spread = (nulls["ece"].upper - nulls["ece"].mean) / 1.6
    assert abs(nulls["slow_ece"].mean - nulls["ece"].mean) < 4 * spread * np.sqrt(2 / 400)
