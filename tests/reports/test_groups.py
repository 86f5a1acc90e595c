"""What is shown of groups, and of an event that is rare."""

import io

import numpy as np
import pytest
from rich.console import Console

from calibrant import Predictions, evaluate
from calibrant.evaluation import Evaluation
from calibrant.evaluation.quantities import brier_skill
from calibrant.evaluation.resampling.events import Events
from calibrant.reports import confidence_histogram, reliability_diagram, render, words
from calibrant.reports.html import report_text
from calibrant.reports.tables import group_pairs, mark_above_trivial, metric_table, trivial_accuracy
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


FEW = {"bootstrap": 40, "null_draws": 40, "calibrators": []}


def events(base: float, *, size: int = 2000, seed: int = 0) -> Predictions:
    """Calibrated predictions of an event whose log-odds lie about ``base``."""
    rng = np.random.default_rng(seed)
    stated = 1 / (1 + np.exp(-rng.normal(base, 1, size)))
    return Predictions(probs=stated, labels=rng.random(size) < stated)


@pytest.mark.parametrize(("base", "rare"), [(-3.5, True), (3.5, True), (0.0, False)])
def test_ranking_is_shown_if_one_class_is_rare(base, rare) -> None:
    """AUROC and Brier skill are always in the JSON, and in the terminal's table if one class is rare."""
    found = evaluate(events(base), **FEW)
    assert {"auroc", "brier_skill"} <= set(found.arms[0].metrics)
    table = metric_table(found)
    shown = {row.key for row in table.rows if row.in_short}
    assert ("auroc" in shown) == ("brier_skill" in shown) == rare
    assert ("auroc" in {row.key for row in table.numbers(found)}) == rare


def test_an_accuracy_below_the_trivial_one_has_no_tick() -> None:
    found = evaluate(events(-2.5), **FEW)
    trivial = trivial_accuracy(found)
    assert trivial == pytest.approx(1 - found.arms[0].metrics["prevalence"].value)
    assert mark_above_trivial("accuracy", "better", trivial - 0.01, trivial) is None
    assert mark_above_trivial("accuracy", "better", trivial + 0.01, trivial) == "better"
    assert mark_above_trivial("accuracy", "worse", trivial - 0.01, trivial) == "worse"
    assert mark_above_trivial("nll", "better", 0.1, trivial) == "better"


def test_brier_skill_in_closed_form() -> None:
    """0 for the base rate, 1 for the truth, undefined if all outcomes are alike; weights are copies."""
    outcomes = np.array([1.0, 0.0, 0.0, 0.0])
    assert brier_skill(Events(np.full(4, 0.25), outcomes))[0] == pytest.approx(0)
    assert brier_skill(Events(outcomes, outcomes))[0] == 1
    assert brier_skill(Events(np.full(4, 0.5), np.ones(4))) == "undefined: all outcomes are alike"
    stated = np.array([0.7, 0.2, 0.4, 0.1])
    copies = brier_skill(Events(np.repeat(stated, 2), np.repeat(outcomes, 2)))[0]
    assert brier_skill(Events(stated, outcomes, np.full(4, 2.0)))[0] == pytest.approx(copies)


def test_the_interval_of_the_skill_covers() -> None:
    """The standard error from influences is that over 200 samples, to within a fifth."""
    values, errors = [], []
    for seed in range(200):
        given = events(-2.0, size=800, seed=seed)
        value, influence = brier_skill(Events(given.probs.numpy(), given.labels.double().numpy()))
        values.append(value)
        errors.append(np.sqrt((influence**2).sum()) / 800)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.2)


def test_the_diagram_of_a_rare_event_has_logarithmic_axes() -> None:
    rng = np.random.default_rng(0)
    stated = 1 / (1 + np.exp(4.5 - rng.normal(size=2000)))
    found = evaluate(
        Predictions(probs=stated, labels=(rng.random(2000) < stated).astype(int)),
        calibrators=(),
        bootstrap=20,
    )
    curve = next(each for each in found.arms[0].curves if each.name == "positive class")
    assert np.ptp(curve.counts) <= 1
    ax = reliability_diagram(curve)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_xlim() == ax.get_ylim()
    assert ax.get_xlim()[1] < 0.5
    assert confidence_histogram(curve).get_xlim() == ax.get_xlim()
