"""An event with a name of its own is called by it at every door; else it is the positive class."""

import numpy as np
import pytest

from calibrant import Predictions, compare, evaluate
from calibrant.evaluation import Evaluation, check, monitor
from calibrant.reports.html import report_text
from calibrant.reports.terminal import as_text

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
