"""What looks wrong with the data, and what an event is called, is said everywhere."""

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from calibrant.evaluation import Evaluation, check, compare, evaluate, monitor
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.source import alarms
from calibrant.predictions import Kind, Predictions
from calibrant.reports import render, render_comparison
from calibrant.reports.exports import junit_text
from calibrant.reports.html import report_text
from calibrant.reports.terminal import as_text
from undrawn import drawing_no_diagrams

Maker = Callable[..., Predictions]
QUICK: dict[str, Any] = {"bootstrap": 20, "null_draws": 20}
KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel", "top_label")


def softmax(logits: Any) -> Any:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def shifted(made: Maker, by: int) -> Predictions:
    """Labels counted from another number than the columns."""
    honest = made("multiclass", 400, 6, sharpness=1.0)
    true = 5 * np.eye(6)[honest.labels.numpy()] + honest.scores.numpy()
    return Predictions(logits=true, labels=(honest.labels.numpy() - by) % 6)


def alarms_of(predictions: Predictions) -> tuple[str, ...]:
    """What an evaluation says beside its verdict, without the rest of it."""
    return alarms(predictions, reduce_predictions(predictions, 15))


@pytest.mark.parametrize("kind", KINDS)
def test_honest_predictions_raise_no_alarm(made, kind) -> None:
    assert [alarms_of(made(kind, 200, sharpness=sharpness)) for sharpness in (0.3, 1.0, 4.0)] == [()] * 3


@pytest.mark.parametrize(("by", "word"), [(1, "plus"), (-1, "minus")])
def test_labels_shifted_by_one(made, by, word) -> None:
    """Said with how often the label beside is predicted, in place of an accuracy below chance."""
    (warning,) = alarms_of(shifted(made, by))
    assert warning.startswith(f"The labels look shifted by one: the predicted class is the label {word} one ")


def test_an_accuracy_below_chance(made) -> None:
    """Classes in reverse order, by scores that know them: right less often than by guessing."""
    honest = made("multiclass", 400, 4, seed=1)
    reverse = Predictions(logits=-honest.scores.numpy(), labels=honest.labels)
    (warning,) = alarms_of(reverse)
    assert warning.startswith("The accuracy of ")
    assert " is below the 2" in warning  # four classes: a quarter


@pytest.mark.parametrize("kind", ["binary", "multilabel"])
def test_a_ranking_worse_than_chance(made, kind) -> None:
    honest = made(kind, 300)
    swapped = Predictions(logits=honest.scores, labels=1 - honest.labels)
    (warning,) = alarms_of(swapped)
    assert warning.startswith("The ranking is worse than guessing (AUROC 0.")


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_numbers_that_are_not_what_they_are_called(made, kind) -> None:
    honest = made(kind, 300, sharpness=4.0)
    logits = honest.scores.numpy()
    once = softmax(logits) if kind == "multiclass" else 1 / (1 + np.exp(-logits))
    twice = softmax(once) if kind == "multiclass" else 1 / (1 + np.exp(-once))
    for given, said in (({"logits": once}, "look like probabilities"), ({"probs": twice}, "applied twice")):
        found = evaluate(Predictions(labels=honest.labels, **given), calibrators=[], **QUICK)
        (warning,) = found.verdict.warnings
        assert said in warning
        assert warning not in found.notes


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_labels_that_are_the_predictions(made, kind) -> None:
    """Every label the most probable class; not where the confidences say that no error was to be expected."""
    honest = made(kind, 100)
    scores = honest.scores.numpy()
    decided = scores.argmax(axis=1) if kind == "multiclass" else (scores > 0).astype(int)
    (warning,) = alarms_of(Predictions(logits=scores, labels=decided))
    assert warning.startswith("Every label is the most probable class")
    assert alarms_of(Predictions(logits=1000 * scores, labels=decided)) == ()


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_no_label_is_the_likeliest_class(made, kind) -> None:
    scores = made(kind, 200).scores.numpy()
    scores = scores[scores < 0] if kind == "binary" else scores[scores.argmax(axis=1) != 1]
    (warning,) = alarms_of(Predictions(logits=scores, labels=np.ones(len(scores), dtype=int)))
    assert warning.startswith("No label is the most probable class (accuracy 0%")


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_decisions_called_probabilities(made, kind) -> None:
    """Every value 0 or 1: said beside the verdict."""
    honest = made(kind, 100)
    scores = honest.scores.numpy()
    hard = np.eye(scores.shape[-1])[scores.argmax(axis=1)] if kind == "multiclass" else (scores > 0) * 1.0
    (warning,) = alarms_of(Predictions(probs=hard, labels=honest.labels))
    assert warning.startswith("Every probability is 0 or 1")


def test_weak_predictions_are_not_taken_for_something_else() -> None:
    """Log-odds between 0 and 1, or probabilities near one half, are no alarm where none is near an end."""
    rng = np.random.default_rng(0)
    weak = rng.uniform(0.2, 0.8, size=300)
    labels = (rng.random(300) < 1 / (1 + np.exp(-weak))).astype(int)
    assert alarms_of(Predictions(logits=weak, labels=labels)) == ()
    even = softmax(0.1 * rng.normal(size=(300, 3)))
    assert alarms_of(Predictions(probs=even, labels=rng.integers(0, 3, 300))) == ()
    # Though it always predicts the same class, and one in a hundred is of the other.
    rng = np.random.default_rng(0)
    labels = (rng.random(20_000) < 0.01).astype(int)
    weak = Predictions(logits=0.5 * labels + rng.normal(size=20_000) - 5, labels=labels)
    assert alarms_of(weak) == ()


@drawing_no_diagrams()
def test_alarms_are_said_everywhere(made) -> None:
    wrong = shifted(made, 1)
    found = evaluate(wrong, calibrators=["temperature"], **QUICK)
    said = "The labels look shifted by one"
    out = io.StringIO()
    render(found, Console(file=out, width=200))
    assert f"warning: {said}" in out.getvalue()
    assert said in report_text(found).split("</header>")[0]
    assert said in json.loads(found.to_json())["verdict"]["warnings"][0]
    gate = check(wrong, {"ece": 0.5}, bootstrap=20)
    assert said in json.loads(gate.to_json())["warnings"][0]
    assert f"<system-err>{said}" in junit_text(gate)
    both = compare([("good", made("multiclass", 400, 6)), ("bad", wrong)], **QUICK)
    assert both.warnings[0].startswith(f"bad: {said}")
    out = io.StringIO()
    render_comparison(both, Console(file=out, width=200))
    assert f"warning: bad: {said}" in out.getvalue()
    assert said in report_text(both).split("</header>")[0]


def test_a_model_that_learned_nothing(made) -> None:
    honest = made("multiclass", 800, 10)
    constant = np.eye(10)[np.full(800, 3)] * 1e4 + honest.scores.numpy() * 1e-3
    for logits in (constant, np.random.default_rng(1).normal(size=(800, 10))):
        useless = Predictions(logits=logits, labels=honest.labels)
        found = evaluate(useless, calibrators=["temperature", "ensemble-temperature"], **QUICK)
        assert found.verdict.warnings[0].startswith("No better than the class frequencies, as far as ")
        assert found.verdict.headline.startswith("No better than the class frequencies")
        assert found.verdict.recommended == "uncalibrated"
        assert found.verdict.reason.startswith("No calibrator ")
        assert check(useless, {"ece": 0.9}).warnings == alarms_of(useless)


RNG = np.random.default_rng(0)
PROBS = RNG.beta(1, 6, size=800)
PATIENTS = np.arange(800) // 2
LABELS = (RNG.uniform(size=800) < 2 * PROBS).astype(int)


def predictions(names: list[str] | None) -> Predictions:
    """An event that is predicted too rarely."""
    return Predictions(probs=PROBS, labels=LABELS, class_names=names)


def judged(names: list[str] | None) -> Evaluation:
    thresholds = [f"net_benefit_0.{tenths}" for tenths in (1, 2, 3)]
    return evaluate(
        predictions(names), calibrators=(), bootstrap=20, null_draws=50, metrics=thresholds, cluster=PATIENTS
    )


@pytest.mark.parametrize(
    ("names", "called", "headline"),
    [
        (["well", "sepsis"], "sepsis", "Probabilities of sepsis are too low: "),
        (None, "positive class", "Probabilities are too low: "),
        (["no", "yes"], "positive class", "Probabilities are too low: "),
    ],
)
def test_an_event_is_called_by_its_own_name(names: list[str] | None, called: str, headline: str) -> None:
    found = judged(names)
    assert found.verdict.headline.startswith(headline)
    assert found.arms[0].curves[0].name == found.arms[0].shapes[0].name == called
    assert headline in as_text(found)
    curve = found.arms[0].curves[0]
    assert all(0 <= each <= 1 for each in (*curve.expected_low, *curve.expected_high) if each is not None)
    page = report_text(found)
    assert f"ECE, {called}" in page
    assert f"800 test samples of 400 clusters, {LABELS.sum()} events ({called})" in page
    assert f"; Actual rate {LABELS.mean():.1%} [" in page
    assert page.index("Net benefit at 30%, treat all") < page.index("metrics, with their changes")
    assert ("positive class" in page) == (called == "positive class")


def test_gates_comparisons_and_monitors_name_it_too() -> None:
    named = predictions(["well", "sepsis"])
    checked = check(named, {"ece": 0.01}, bootstrap=20)
    assert "calibration error (ECE) of sepsis is" in checked.checks[0].sentence
    compared = compare([("a", named), ("b", named)], bootstrap=20, null_draws=50)
    assert "calibration error of sepsis" in compared.verdict
    assert "positive class" not in report_text(compared)
    found = monitor(named, np.arange(800), window=400, bootstrap=20)
    assert "positive class" not in report_text(found)
