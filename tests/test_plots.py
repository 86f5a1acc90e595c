"""What ``calibrant.plots`` draws: values, artists, words, and nothing beside the axes it is given."""

import pickle
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from calibrant import InputError, Predictions, compare, evaluate, plots
from calibrant.evaluation import Evaluation, monitor
from calibrant.evaluation.pipeline import judged_as_it_is
from calibrant.metrics import (
    decision_curve,
    flexible_calibration_curve,
    reliability_table,
    risk_coverage_curve,
)
from calibrant.plots import ReliabilityDisplay
from calibrant.predictions import load_predictions
from calibrant.reports.file_figures import FigureRequest, figure_named

RNG = np.random.default_rng(0)
PROBS = RNG.uniform(size=600)
LABELS = (RNG.uniform(size=600) < PROBS**2).astype(int)
PAIR = np.stack([1 - PROBS, PROBS], axis=1)
TABLE = RNG.dirichlet(np.ones(3), size=600)
CLASSES = np.array([RNG.choice(3, p=row) for row in TABLE**2 / (TABLE**2).sum(axis=1, keepdims=True)])
SEVERAL = (RNG.uniform(size=TABLE.shape) < TABLE).astype(int)
NAMES = np.array(["cat", "dog", "fox"])


@pytest.fixture
def ax() -> Axes:
    return Figure().add_subplot()


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    """Of three classes in two groups, with a repair."""
    groups = np.where(TABLE[:, 0] > 0.3, "high", "low")
    given = Predictions(probs=TABLE, labels=CLASSES, class_names=NAMES, groups=groups)
    return evaluate(given, bootstrap=20, null_draws=20)


def legend(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def points(ax: Axes) -> np.ndarray:
    clouds = [artist.get_offsets() for artist in ax.collections if isinstance(artist, PathCollection)]
    found = np.concatenate(clouds)
    return found[np.argsort(found[:, 0])]


def bars(ax: Axes) -> int:
    return sum(len(each.get_segments()) for each in ax.collections if isinstance(each, LineCollection))


def words(ax: Axes) -> tuple[str, str]:
    return ax.get_xlabel(), ax.get_ylabel()


def test_points_are_the_means_of_the_bins(ax) -> None:
    """As in the table of the metrics, with an interval each, in the axes given."""
    display = ReliabilityDisplay.from_predictions(PROBS, LABELS, bins=10, ax=ax)
    table = reliability_table(PROBS, LABELS, num_bins=10)
    assert np.allclose(points(ax), np.stack([table.confidence, table.accuracy], axis=1))
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert bars(ax) == 10
    assert words(ax) == ("predicted probability", "actual rate")
    assert "below it: too high" in legend(ax)


def test_the_command_draws_the_same(ax, tmp_path) -> None:
    """The figure `reliability` of a file has the points, bars and words of the display."""
    np.savez(tmp_path / "a.npz", probs=PROBS, labels=LABELS)
    request = FigureRequest(files={"a": tmp_path / "a.npz"}, load=load_predictions)
    drawn = figure_named("reliability").draw_files(request).figure.axes[0]
    ReliabilityDisplay.from_predictions(PROBS, LABELS, ax=ax)
    assert np.array_equal(points(drawn), points(ax))
    assert bars(drawn) == bars(ax)
    assert drawn.get_ylabel() == ax.get_ylabel()


def test_curves_are_those_of_an_evaluation(evaluation) -> None:
    for given in (
        Predictions(probs=PROBS, labels=LABELS),
        Predictions(probs=TABLE, labels=CLASSES),
        Predictions(probs=PAIR, labels=LABELS),
        Predictions(confidence=PROBS, correct=LABELS),
    ):
        _, _, arm = judged_as_it_is(given)
        (curve,) = ReliabilityDisplay.from_predictions(given).curves.values()
        assert curve == arm.curves[0]


def test_classes_are_drawn_by_name_or_number(ax) -> None:
    fox = ReliabilityDisplay.from_predictions(TABLE[:, 2], CLASSES == 2).curves[""]
    given = Predictions(probs=TABLE, labels=CLASSES, class_names=NAMES)
    named = ReliabilityDisplay.from_predictions(given, class_="fox", ax=ax)
    assert ax.get_xlabel() == "predicted probability of fox"
    numbered = ReliabilityDisplay.from_predictions(TABLE, CLASSES, class_=2)
    assert numbered.ax_.get_xlabel() == "predicted probability of class 2"
    for place in (0, 1):  # of two classes without names, each says which it is
        two = ReliabilityDisplay.from_predictions(PAIR, LABELS, class_=place)
        assert two.ax_.get_xlabel() == f"predicted probability of class {place}"
    for display in (named, numbered):
        (curve,) = display.curves.values()
        assert (curve.confidence, curve.accuracy) == (fox.confidence, fox.accuracy)
    third = ReliabilityDisplay.from_predictions(TABLE[:, 2], SEVERAL[:, 2]).curves[""]
    of_several = ReliabilityDisplay.from_predictions(TABLE, SEVERAL, class_=2).curves[""]
    assert (of_several.counts, of_several.accuracy) == (third.counts, third.accuracy)
    negative = ReliabilityDisplay.from_predictions(PROBS, LABELS, class_=0)
    positive = ReliabilityDisplay.from_predictions(PROBS, LABELS).curves[""]
    assert sum(negative.curves[""].counts) == 600
    assert negative.curves[""].accuracy[0] == pytest.approx(1 - (positive.accuracy[-1] or 0), abs=0.02)
    together = ReliabilityDisplay.from_predictions(TABLE, SEVERAL)
    assert sum(together.curves[""].counts) == 1800


def test_an_estimator_is_drawn_with_its_own_words(ax) -> None:
    """Labels that are words are matched by its classes; the legend has its name as a title."""
    animals = NAMES[CLASSES]
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(TABLE[:, :2], animals)
    display = ReliabilityDisplay.from_estimator(model, TABLE[:, :2], animals, class_="dog", ax=ax)
    stated = model.predict_proba(TABLE[:, :2])[:, 1]
    expected = ReliabilityDisplay.from_predictions(stated, animals == "dog").curves[""]
    assert display.curves["GaussianNB"].accuracy == expected.accuracy
    assert ax.get_legend().get_title().get_text() == "GaussianNB"


def test_models_in_the_same_axes_are_told_apart(ax) -> None:
    """Each in a colour, in order; names are kept as they are, also twice; what the user drew stays."""
    ax.set_title("mine")
    mine = ax.axvline(0.5, color="red")
    ReliabilityDisplay.from_predictions(PROBS, LABELS, name="$a_1$", ax=ax)
    ReliabilityDisplay.from_predictions(PROBS**2, LABELS, name="$a_1$", ax=ax)
    ReliabilityDisplay.from_predictions(PROBS**3, LABELS, ax=ax)
    assert legend(ax)[:4] == ["calibrated", "$a_1$", "$a_1$ (2)", "model 3"]
    lines = [line for line in ax.lines if line is not mine]
    assert [line.get_color() for line in lines[1:]] == ["#0072b2", "#d55e00", "#009e73"]
    assert mine in ax.lines
    assert ax.get_title() == "mine"
    again = pickle.loads(pickle.dumps(ax.figure)).axes[0]
    ReliabilityDisplay.from_predictions(PROBS, LABELS, name="d", ax=again)
    assert "d" in legend(again)
    ax.clear()
    ReliabilityDisplay.from_predictions(PROBS, LABELS, ax=ax)
    assert legend(ax)[:2] == ["calibrated", "band: noise"]


def test_rare_events_have_bins_of_equal_mass_and_logarithms(ax) -> None:
    """By default; both may be asked for otherwise, and a further model that is not rare undoes both."""
    rare = PROBS * 0.04
    event = RNG.uniform(size=600) < rare
    display = ReliabilityDisplay.from_predictions(rare, event, ax=ax)
    assert np.ptp(display.curves[""].counts) <= 1
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    plain = ReliabilityDisplay.from_predictions(rare, event, log=False).ax_
    assert plain.get_xscale() == "linear"
    assert plain.get_xlim()[1] < 0.2
    wide = ReliabilityDisplay.from_predictions(rare, event, binning="width")
    assert wide.ax_.get_xlim() == (0, 1)
    assert ReliabilityDisplay.from_predictions(PROBS, LABELS, log=True).ax_.get_xscale() == "log"
    ReliabilityDisplay.from_predictions(PROBS, LABELS, ax=ax)
    assert (ax.get_xscale(), ax.get_xlim(), ax.get_ylim()) == ("linear", (0, 1), (0, 1))


def test_bins_of_equal_mass_and_no_intervals(ax) -> None:
    display = ReliabilityDisplay.from_predictions(
        PROBS, LABELS, bins=6, binning="mass", interval=False, ax=ax
    )
    assert display.curves[""].counts == (100,) * 6
    assert len(points(ax)) == 6
    assert bars(ax) == 0


def test_an_evaluation_is_drawn_before_and_after(evaluation, ax) -> None:
    ReliabilityDisplay.from_evaluation(evaluation, ax=ax)
    repaired = evaluation.arm(evaluation.verdict.recommended)
    assert legend(ax)[:3] == ["calibrated", "Uncalibrated", repaired.title]
    expected = np.array(repaired.curves[0].accuracy, dtype=float)
    assert np.isin(expected[~np.isnan(expected)], points(ax)[:, 1]).all()
    given = Predictions(probs=TABLE, labels=CLASSES)
    both = compare([("a", given), ("b", given)], bootstrap=20, null_draws=20)
    assert legend(ReliabilityDisplay.from_evaluation(both).ax_)[:3] == ["calibrated", "a", "b"]


def test_class_errors_are_in_points(evaluation, ax) -> None:
    plots.class_errors(evaluation, ax=ax)
    before = [float(x) for line in ax.lines if line.get_fillstyle() == "none" for x in line.get_xdata()]
    expected = [100 * (row.mean_probability - row.prevalence) for row in evaluation.arms[0].classes]
    assert sorted(before) == pytest.approx(sorted(expected))
    assert any(line.get_fillstyle() == "full" and line.get_marker() == "o" for line in ax.lines)
    alone = plots.class_errors(TABLE, CLASSES, most=2)
    assert len(alone.get_yticklabels()) == 2
    assert not any(len(line.get_xdata()) for line in alone.lines[1:] if line.get_fillstyle() == "full")


def test_groups_are_drawn_with_intervals(evaluation, ax) -> None:
    """The gap of every group in points, before and after; clear findings have a colour and a shape."""
    plots.groups(evaluation, ax=ax)
    rows = evaluation.arms[0].groups
    assert {label.get_text() for label in ax.get_yticklabels()} == {f"{r.name} ({r.count:,})" for r in rows}
    hollow = [line for line in ax.lines if line.get_fillstyle() == "none"]
    drawn = sorted(float(line.get_xdata()[0]) for line in hollow)
    assert drawn == pytest.approx(sorted(100 * (row.gap.value or 0) for row in rows))
    assert bars(ax) == 2 * len(rows)
    groups = np.repeat(["off", "fine"], 300)
    claims = np.where(groups == "off", 0.99, LABELS.mean())
    alone = plots.groups(claims, LABELS, groups=groups)
    marks = {
        line.get_marker(): float(line.get_xdata()[0]) for line in alone.lines if line.get_marker() in "oD"
    }
    assert marks["D"] == pytest.approx(100 * (0.99 - LABELS[:300].mean()))
    assert abs(marks["o"]) < 10


def test_histograms_count_right_and_wrong(evaluation) -> None:
    right = (TABLE.argmax(axis=1) == CLASSES).sum()
    for found in ((evaluation,), (TABLE, CLASSES)):
        texts = [text.get_text() for text in plots.confidence_histogram(*found).texts]
        assert texts == [f"{right} correct", f"{600 - right} wrong"]
    texts = [text.get_text() for text in plots.confidence_histogram(PROBS, LABELS).texts]
    assert texts == [f"{LABELS.sum()} positive", f"{600 - LABELS.sum()} negative"]


def test_risk_against_coverage_is_that_of_the_metrics(evaluation, ax) -> None:
    plots.risk_coverage(TABLE, CLASSES, ax=ax)
    curve = risk_coverage_curve(TABLE, CLASSES)
    assert np.allclose(ax.lines[0].get_ydata()[1:], curve.risk)
    assert words(ax) == ("share of samples answered", "error rate among them")
    several = plots.risk_coverage({"a": PROBS, "b": PROBS**2}, LABELS)
    assert [name[:2] for name in legend(several)] == ["a ", "b "]
    assert len(legend(plots.risk_coverage(evaluation))) == 2


def test_calibration_curves_are_those_of_the_metrics(ax) -> None:
    """With the event's own name on the axes, over the range that the curve has."""
    named = Predictions(probs=PROBS, labels=LABELS, class_names=["well", "sepsis"])
    plots.calibration_curve({"a": named}, ax=ax)
    found = flexible_calibration_curve(PROBS, LABELS)
    assert np.allclose(ax.lines[1].get_ydata(), found.actual)
    assert np.allclose(ax.lines[1].get_xdata(), found.positions)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted probability of sepsis", "actual rate of sepsis")
    assert plots.decision_curve(named).get_xlabel() == "threshold probability of sepsis"
    shown = plots.ReliabilityDisplay.from_predictions(named)
    assert shown.ax_.get_xlabel() == "predicted probability of sepsis"


def test_decision_curves_are_those_of_the_metrics(ax) -> None:
    """With both extremes, of an event or of a class; several classes need one to be named."""
    plots.decision_curve({"a": PROBS, "b": PROBS**2}, LABELS, thresholds=[0.1, 0.4], ax=ax)
    found = decision_curve(PROBS, LABELS, thresholds=[0.1, 0.4])
    assert np.allclose(ax.lines[0].get_ydata(), found.net_benefit)
    assert np.allclose(ax.lines[2].get_ydata(), found.treat_all)
    assert legend(ax) == ["a", "b", "treat everyone", "treat no one"]
    assert len(ax.collections) == 2
    of_class = plots.decision_curve(TABLE, CLASSES, class_=1)
    expected = decision_curve(TABLE[:, 1], CLASSES == 1)
    assert np.allclose(of_class.lines[0].get_ydata(), expected.net_benefit)


def test_windows_are_drawn_over_time(ax) -> None:
    found = monitor(Predictions(probs=PROBS, labels=LABELS), np.arange(600), window=100, bootstrap=20)
    plots.over_time(found, ax=ax)
    errors = [window.metrics["ece"].value for window in found.windows]
    assert np.allclose(ax.lines[0].get_ydata(), errors)
    assert len(plots.over_time(found, show="means").lines) == 2
    assert plots.over_time(found, show="evidence").get_ylabel() == "evidence, power of ten"
    with pytest.raises(InputError, match="`show` must be one of"):
        plots.over_time(found, show="all")


WITHOUT_CLASS = "say which class it is: `class_`"
draw_points = ReliabilityDisplay.from_predictions


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda _: draw_points(PROBS), "`labels` must be given"),
        (lambda _: draw_points(Predictions(probs=PROBS, labels=LABELS), LABELS), "which have their own"),
        (lambda _: draw_points(PROBS, LABELS, binning="even"), '`binning` must be one of "width", "mass"'),
        (lambda _: draw_points(TABLE, CLASSES, class_names=NAMES, class_="foxx"), "no class 'foxx'.*'fox'"),
        (
            lambda _: draw_points(PAIR, LABELS, class_names=["ill", "well"], class_="il"),
            r"positive class must be 0, 1, ill or well; .*did you mean 'ill'",
        ),
        (lambda found: ReliabilityDisplay.from_evaluation(found, class_="cat"), "no diagram of 'cat'"),
        (
            lambda _: plots.class_errors(Predictions(confidence=PROBS, correct=LABELS)),
            "have only confidences",
        ),
        (lambda found: plots.class_errors(found, LABELS), "which has its own"),
        (lambda _: plots.groups(PROBS, LABELS), "there are no groups"),
        (lambda _: plots.risk_coverage({}, LABELS), "at least one curve"),
        (lambda _: plots.risk_coverage(TABLE, SEVERAL), "one column at a time"),
        (lambda _: plots.decision_curve(TABLE, CLASSES), WITHOUT_CLASS),
        (lambda _: plots.decision_curve(TABLE, SEVERAL), WITHOUT_CLASS),
        (plots.decision_curve, "an evaluation holds no samples"),
        (plots.over_time, r"what `calibrant\.evaluation\.monitor` returns; got Evaluation"),
        (
            lambda found: plots.confidence_histogram(found, class_names=NAMES),
            "`class_names` must not be given with an evaluation, which has",
        ),
    ],
)
def test_what_cannot_be_drawn_says_what_to_give(draw, said, evaluation) -> None:
    with pytest.raises((InputError, TypeError), match=said):
        draw(evaluation)


def test_without_axes_pyplot_shows_the_figure() -> None:
    display = ReliabilityDisplay.from_predictions(PROBS, LABELS)
    assert pyplot.gcf() is display.figure_
    assert plots.confidence_histogram(PROBS, LABELS).figure is pyplot.gcf()
    assert len(pyplot.get_fignums()) == 2


def test_axes_of_one_s_own_need_no_pyplot(ax, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.delattr(matplotlib, "pyplot")
    assert ReliabilityDisplay.from_predictions([0.2, 0.4, 0.6, 0.9], [0, 1, 0, 1], ax=ax).ax_ is ax


TWO_WORDS = np.where(LABELS == 1, "spam", "ham")
PLOTS = (
    plots.class_errors,
    plots.confidence_histogram,
    plots.risk_coverage,
    plots.decision_curve,
    plots.groups,
    ReliabilityDisplay.from_predictions,
)


@pytest.mark.parametrize("draw", PLOTS)
def test_words_are_labels_where_they_are_named(draw, ax) -> None:
    """By ``class_names`` for columns and ``positive_class`` for one column, as numbers would be."""
    more = {"groups": TWO_WORDS} if draw is plots.groups else {}
    drawn = []
    for probs, labels, named in (
        (PROBS, LABELS, {}),
        (PROBS, TWO_WORDS, {"positive_class": "spam"}),
        (PAIR, TWO_WORDS, {"class_names": ["ham", "spam"]}),
        (PAIR[:, ::-1].copy(), TWO_WORDS, {"class_names": ["spam", "ham"], "positive_class": "spam"}),
    ):
        axes = Figure().add_subplot()
        draw(probs, labels, **named, **more, ax=axes)
        drawn.append([axes.dataLim.bounds, len(axes.get_children())])
    assert drawn[0] == drawn[1] == drawn[2] == drawn[3]
    with pytest.raises(InputError, match=r"exchange the two, as in `from_predictions\(y_prob, y_true\)`"):
        draw(TWO_WORDS, PROBS, **more, ax=ax)
    with pytest.raises(InputError, match="`class_names` must not be given with predictions"):
        draw(Predictions(probs=PROBS, labels=LABELS), class_names=["a", "b"], **more, ax=ax)
    with pytest.raises(TypeError, match="argument 'clas_names'; did you mean 'class_names'"):
        draw(PROBS, LABELS, clas_names=["a", "b"], ax=ax)
    with pytest.raises(TypeError, match=r"`ax` must be axes, as of `figure\.subplots\(\)`; got Figure"):
        draw(PROBS, LABELS, **more, ax=Figure())
