"""Plots of probabilities and labels, or of an evaluation: axes in, axes out.

Every function draws into ``ax`` and returns it; without one, into a new figure of pyplot, for notebooks.
Predictions are probabilities with labels, in the shapes of :class:`calibrant.Predictions`, or such an object
(of which the test split is drawn, where it has one). Colours are chosen for colour-blind readers and for
print, and your own style sheet applies. Matplotlib is imported when something is drawn.

The objective of focal temperature scaling over its two parameters is drawn by calibrant-lab:
``calibrant_lab.figures.landscape_heat_map``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant._math.text_form import kind_of, named, suggesting
from calibrant.evaluation.arguments import test_of
from calibrant.evaluation.judging.diagrams import curve_of, decisions_of, flexible_of
from calibrant.evaluation.monitoring.result import Monitoring
from calibrant.evaluation.pipeline import evaluate
from calibrant.evaluation.quantities import ECE
from calibrant.evaluation.result import Arm, ComparedModel, Comparison, Curve, Evaluation
from calibrant.metrics import RiskCoverageCurve, selective_risk_curve
from calibrant.predictions import Predictions
from calibrant.predictions.estimators import innermost
from calibrant.predictions.labels import POSITIVE_CLASS
from calibrant.reports import figures, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Stated: TypeAlias = ArrayLike | Predictions
Class: TypeAlias = int | str | None
Shown = TypeVar("Shown")
Binning: TypeAlias = Literal["width", "mass"] | None
_DRAWN = "_calibrant_drawn"  # attribute of a line: the curves in its axes, and the artists that show them


class ReliabilityDisplay:
    """Reliability diagram: predicted probability against actual rate, bin by bin.

    One model is shown with its noise band: the points of a calibrated model lie within the band, and points
    outside have a colour and a shape of their own. Drawn into axes that show a model already, all are drawn
    anew as lines, each with a colour, a shape and dashes of its own.

    Args:
        curves: Bins by the model's name, as :attr:`calibrant.Evaluation.arms` have them.

    Example:
        >>> import numpy as np
        >>> probs = np.random.default_rng(0).uniform(size=500)
        >>> labels = np.random.default_rng(1).uniform(size=500) < probs
        >>> display = ReliabilityDisplay.from_predictions(probs, labels, name="A")
        >>> display = ReliabilityDisplay.from_predictions(probs**2, labels, name="B", ax=display.ax_)
        >>> [text.get_text() for text in display.ax_.get_legend().get_texts()][:3]
        ['calibrated', 'A', 'B']
    """

    ax_: Axes
    """The axes drawn into."""
    figure_: Figure
    """The figure that they belong to."""

    def __init__(self, curves: Mapping[str, Curve]) -> None:
        self.curves = dict(curves)

    @classmethod
    @suggesting()
    def from_predictions(
        cls,
        probs: Stated,
        labels: ArrayLike | None = None,
        *,
        class_names: ArrayLike | None = None,
        positive_class: int | str | None = None,
        class_: Class = None,
        bins: int = 15,
        binning: Binning = None,
        log: bool | None = None,
        interval: bool = True,
        ax: Axes | None = None,
        name: str | None = None,
    ) -> ReliabilityDisplay:
        """Draw probabilities against labels.

        Args:
            probs: Probabilities ``(N,)`` or ``(N, C)``, or predictions.
            labels: Classes ``(N,)``, or with several labels per sample outcomes ``(N, C)``.
            class_names: One name per column, if labels are words.
            positive_class: The class of two whose probabilities one column ``(N,)`` holds.
            class_: The class, by number or name, that is shown against all others. By default the positive
                class of two, of more classes the predicted one, of several labels all together.
            bins: Number of bins.
            binning: Bins of equal ``"width"`` or equal ``"mass"``; by default of equal width, and of equal
                mass where one bin would hold more than 80% of the samples of an event.
            log: Logarithmic axes; by default if bins of equal mass hold a rare event.
            interval: Draw the 95% interval of each bin's rate.
            ax: Where to draw; a new figure if ``None``.
            name: Name of the model in the legend.

        Raises:
            InputError: If an argument is out of range, or there is no such class.
        """
        given = _predictions(probs, labels, class_names, positive_class)
        curve = curve_of(given, class_, num_bins=bins, binning=binning)
        if not interval:
            curve = replace(curve, low=(None,) * bins, high=(None,) * bins)
        return cls({name or "": curve}).plot(log=log, ax=ax)

    @classmethod
    @suggesting()
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        class_: Class = None,
        bins: int = 15,
        binning: Binning = None,
        log: bool | None = None,
        interval: bool = True,
        ax: Axes | None = None,
        name: str | None = None,
    ) -> ReliabilityDisplay:
        """Draw a fitted scikit-learn classifier on samples ``X`` with its classes ``y``.

        ``name`` is that of its class by default, in a pipeline the last step's; all else is as in
        :meth:`from_predictions`.
        """
        given = Predictions.from_estimator(estimator, X, y)
        name = type(innermost(estimator)).__name__ if name is None else name
        return cls.from_predictions(
            given, class_=class_, bins=bins, binning=binning, log=log, interval=interval, ax=ax, name=name
        )

    @classmethod
    @suggesting()
    def from_evaluation(
        cls,
        found: Evaluation | Comparison,
        *,
        class_: str | None = None,
        log: bool | None = None,
        ax: Axes | None = None,
    ) -> ReliabilityDisplay:
        """Draw an evaluation before and after the recommended repair, or all models of a comparison.

        Args:
            found: From :func:`calibrant.evaluate` or :func:`calibrant.compare`.
            class_: ``"top label"``, ``"positive class"``, or the name of the event or one of several labels;
                by default what the report draws first.
            log: As in :meth:`from_predictions`.
            ax: Where to draw; a new figure if ``None``.

        Raises:
            InputError: If there is no such diagram.
        """
        curves = {title: _curve(part, class_) for title, part in _parts(found).items()}
        return cls(curves).plot(log=log, ax=ax)

    def plot(self, *, log: bool | None = None, ax: Axes | None = None) -> ReliabilityDisplay:
        """Draw the curves, next to those of other displays in the axes."""
        ax = _axes(ax, 4.2, 4.2)
        drawn = _taken_off(ax)
        for name, curve in self.curves.items():
            free = name or f"model {len(drawn) + 1}"
            drawn[free if free not in drawn else f"{free} ({len(drawn) + 1})"] = curve
        before = set(ax.get_children())
        if len(drawn) == 1:
            figures.reliability_diagram(*drawn.values(), ax=ax, log=log)
            _title_legend(ax, next(iter(self.curves)))
        else:
            figures.reliability_comparison(drawn, ax=ax, log=log)
        artists = [artist for artist in ax.get_children() if artist not in before]
        vars(next(line for line in ax.lines if line in artists))[_DRAWN] = drawn, artists
        self.ax_, self.figure_ = ax, cast("Figure", ax.figure)
        return self


@suggesting()
def class_errors(
    found: Evaluation | Stated,
    labels: ArrayLike | None = None,
    *,
    class_names: ArrayLike | None = None,
    positive_class: int | str | None = None,
    most: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """Average probability minus actual rate of each class, before and after the recommended repair.

    In percentage points. A calibrated model keeps every class within the grey bands, the noise floors.

    Args:
        found: An evaluation; or probabilities or predictions, without a repair.
        labels: With probabilities, the true classes.
        class_names: One name per column, if labels are words.
        positive_class: The class of two whose probabilities one column ``(N,)`` holds.
        most: How many classes to show, those first that are furthest off.
        ax: Where to draw; a new figure if ``None``.

    Raises:
        InputError: If the probabilities of the classes are not known.

    Example:
        >>> probs = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]] * 40
        >>> class_errors(probs, [0, 1, 0] * 40).get_xlabel()
        'predicted minus actual rate, points'
    """
    pairs = tables.furthest_pairs(_evaluation(found, labels, class_names, positive_class))[:most]
    if not pairs:
        raise InputError(
            "class errors need the probabilities of all classes; these predictions have only confidences."
        )
    after = [pair.after for pair in pairs if pair.after is not None]
    ax = _axes(ax, 4.2, 0.7 + 0.22 * len(pairs))
    return figures.class_shifts([pair.before for pair in pairs], after, ax=ax)


@suggesting()
def confidence_histogram(
    found: Evaluation | Stated,
    labels: ArrayLike | None = None,
    *,
    class_names: ArrayLike | None = None,
    positive_class: int | str | None = None,
    class_: Class = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot confidence where the model is right (upwards) and wrong (downwards), in samples.

    Args:
        found: An evaluation, whose uncalibrated predictions are drawn; or probabilities or predictions.
        labels: With probabilities, the true classes.
        class_names: One name per column, if labels are words.
        positive_class: The class of two whose probabilities one column ``(N,)`` holds.
        class_: As in :class:`ReliabilityDisplay`.
        ax: Where to draw; a new figure if ``None``.

    Raises:
        InputError: If there is no such class.

    Example:
        >>> confidence_histogram([0.2, 0.4, 0.6, 0.9], [0, 1, 0, 1]).get_ylabel()
        'samples (√)'
    """
    if isinstance(found, Evaluation):
        curve = _curve(_evaluation(found, labels, class_names, positive_class).arms[0], class_)
    else:
        curve = curve_of(_predictions(found, labels, class_names, positive_class), class_)
    return figures.confidence_histogram(curve, ax=_axes(ax, 4.2, 2.2))


@suggesting()
def risk_coverage(
    found: Evaluation | Stated | Mapping[str, Stated],
    labels: ArrayLike | None = None,
    *,
    class_names: ArrayLike | None = None,
    positive_class: int | str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the error rate of the most confident answers against their share.

    Args:
        found: An evaluation, drawn before and after its repair; or probabilities or predictions, or several
            of them by name.
        labels: With probabilities, the true classes.
        class_names: One name per column, if labels are words.
        positive_class: The class of two whose probabilities one column ``(N,)`` holds.
        ax: Where to draw; a new figure if ``None``.

    Raises:
        InputError: If samples have several labels.

    References:
        El-Yaniv and Wiener, "On the Foundations of Noise-free Selective Classification", JMLR 11, 2010.

    Example:
        >>> risk_coverage([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]], [0, 1, 1]).get_xlabel()
        'share of samples answered'
    """
    if isinstance(found, Evaluation):
        selections = {
            title: shapes.selection.curve
            for title, arm in _parts(_evaluation(found, labels, class_names, positive_class)).items()
            for shapes in cast("Arm", arm).shapes
            if shapes.selection is not None
        }
    else:
        selections = {
            name: _risk(each) for name, each in _by_name(found, labels, class_names, positive_class).items()
        }
    curves = next(iter(selections.values())) if len(selections) == 1 else selections
    return figures.risk_coverage_diagram(curves, ax=_axes(ax, 4.2, 3.0))


@suggesting()
def decision_curve(
    probs: Stated | Mapping[str, Stated],
    labels: ArrayLike | None = None,
    *,
    class_names: ArrayLike | None = None,
    positive_class: int | str | None = None,
    class_: Class = None,
    thresholds: Sequence[float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the net benefit of acting above a threshold, against treating everyone or no one.

    The band is the interval of :func:`calibrant.metrics.decision_curve`.

    Args:
        probs: Probabilities of an event ``(N,)``, or of classes with ``class_``; or predictions; or several
            of them by name. An evaluation holds no samples.
        labels: With probabilities, the true outcomes.
        class_names: One name per column, if labels are words.
        positive_class: The class of two whose probabilities one column ``(N,)`` holds.
        class_: The class that is the event; by default the positive one of two.
        thresholds: Between 0 and 1; by default 99 up to the largest probability.
        ax: Where to draw; a new figure if ``None``.

    Raises:
        InputError: If there are more than two classes and no ``class_``, or a threshold is out of range.

    References:
        Vickers and Elkin, "Decision curve analysis: a novel method for evaluating prediction models", Medical
        Decision Making 26, 2006.

    Example:
        >>> decision_curve([0.1, 0.4, 0.6, 0.8], [0, 0, 1, 1]).get_ylabel()
        'net benefit'
    """
    if isinstance(probs, Evaluation):
        raise InputError("`probs` must be probabilities or predictions; an evaluation holds no samples.")
    found = {
        name: decisions_of(given, class_, thresholds=thresholds)
        for name, given in _by_name(probs, labels, class_names, positive_class).items()
    }
    return figures.decision_diagram(*_of_one_event(found), ax=_axes(ax, 4.2, 3.2))


@suggesting()
def calibration_curve(
    probs: Stated | Mapping[str, Stated],
    labels: ArrayLike | None = None,
    *,
    class_names: ArrayLike | None = None,
    positive_class: int | str | None = None,
    class_: Class = None,
    num_knots: Literal[3, 4, 5] = 5,
    ax: Axes | None = None,
) -> Axes:
    """Plot the smooth calibration curve with its band, over the range of 98% of the samples.

    It is :func:`calibrant.metrics.flexible_calibration_curve`, whose ICI the legend shows.

    Args:
        probs: As in :func:`decision_curve`; of classes without ``class_`` that of the predicted one.
        labels: With probabilities, the true outcomes.
        class_: The class that is the event; by default the positive one of two.
        class_names: One name per column, if labels are words.
        positive_class: The class of two whose probabilities one column ``(N,)`` holds.
        num_knots: Knots of the spline.
        ax: Where to draw; a new figure if ``None``.

    Raises:
        InputError: If all outcomes or all probabilities are alike.

    References:
        Austin and Steyerberg, "The Integrated Calibration Index (ICI) and related metrics for quantifying the
        calibration of logistic regression models", Statistics in Medicine 38, 2019.

    Example:
        >>> calibration_curve([0.1, 0.2, 0.3, 0.4] * 20, [0, 0, 1, 0, 1] * 16).get_ylabel()
        'actual rate'
    """
    found = {
        name: flexible_of(given, class_, num_knots=num_knots)
        for name, given in _by_name(probs, labels, class_names, positive_class).items()
    }
    return figures.flexible_diagram(*_of_one_event(found), ax=_axes(ax, 4.2, 4.2))


@suggesting()
def groups(
    found: Evaluation | Stated,
    labels: ArrayLike | None = None,
    *,
    class_names: ArrayLike | None = None,
    positive_class: int | str | None = None,
    groups: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Average prediction minus actual rate of each group, before and after the recommended repair.

    In percentage points, with intervals; clear findings come first, in a colour and a shape of their own.

    Args:
        found: An evaluation of predictions with groups; or probabilities or predictions, without a repair.
        labels: With probabilities, the true classes.
        class_names: One name per column, if labels are words.
        positive_class: The class of two whose probabilities one column ``(N,)`` holds.
        groups: The group of each sample ``(N,)``, unless ``found`` has them.
        ax: Where to draw; a new figure if ``None``.

    Raises:
        InputError: If there are no groups.

    Example:
        >>> probs, labels = [0.2, 0.4, 0.6, 0.9] * 20, [0, 1, 0, 1] * 20
        >>> ax = groups(probs, labels, groups=["a", "b"] * 40)
        >>> sorted(label.get_text() for label in ax.get_yticklabels())
        ['a (40)', 'b (40)']
    """
    evaluation = _evaluation(found, labels, class_names, positive_class, groups)
    pairs = tables.group_pairs(evaluation)
    if not pairs:
        raise InputError("there are no groups; pass one group per sample as `groups`.")
    after = [pair.after for pair in pairs if pair.after is not None]
    ax = _axes(ax, 4.2, 0.7 + 0.3 * len(pairs))
    return figures.group_gaps([pair.before for pair in pairs], after, level=evaluation.settings.level, ax=ax)


@suggesting()
def over_time(
    found: Monitoring, *, show: Literal["error", "means", "evidence"] = "error", ax: Axes | None = None
) -> Axes:
    """Plot a deployed model's calibration by window.

    Args:
        found: From :func:`calibrant.evaluation.monitor`.
        show: The calibration ``"error"`` of each window, the predicted and actual ``"means"``, each with its
            interval; or the ``"evidence"`` against the model, with the level of an alarm.
        ax: Where to draw; a new figure if ``None``.

    Raises:
        InputError: If ``show`` is something else.
    """
    from calibrant.reports import monitoring  # with matplotlib

    if not isinstance(found, Monitoring):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`found` must be what `calibrant.evaluation.monitor` returns; got {kind_of(found)}.")
    check_choice("show", show, ("error", "means", "evidence"))
    ax = _axes(ax, 4.2, 2.6)
    if show == "evidence":
        return monitoring.evidence_diagram(found, ax)
    if show == "error":
        return monitoring.window_diagram(found, [(ECE.key, "ECE")], "ECE", ax)
    return monitoring.window_diagram(found, tables.means_of(found), "mean", ax)


def _predictions(
    found: Stated,
    labels: ArrayLike | None,
    class_names: ArrayLike | None,
    positive_class: int | str | None,
    groups: ArrayLike | None = None,
) -> Predictions:
    own: dict[str, Any] = {"labels": labels, "class_names": class_names}
    if isinstance(found, Predictions):
        _refuse(own, "predictions, which have their own")
        found = found if positive_class is None else found.as_binary(positive_class)
        return found if groups is None else found.with_groups(groups)
    try:
        return Predictions(probs=found, **own, positive_class=positive_class, groups=groups)
    except (InputError, TypeError) as error:
        if not _are_shares(labels) or _are_shares(found):
            raise
        raise InputError(
            "probabilities come first, other than in scikit-learn: exchange the two, as in "
            "`from_predictions(y_prob, y_true)`."
        ) from error


def _are_shares(values: Any) -> bool:
    """Return True for fractions between 0 and 1."""
    try:
        table = as_float_tensor(values, name="probs")
    except (InputError, TypeError):
        return False
    return bool(((table >= 0) & (table <= 1)).all()) and not bool((table == table.round()).all())


def _refuse(own: Mapping[str, object], which: str) -> None:
    given = next((name for name, each in own.items() if each is not None), None)
    if given is not None:
        raise InputError(f"`{given}` must not be given with {which}.")


def _by_name(found: Stated | Mapping[str, Stated], *own: Any) -> dict[str, Predictions]:
    several = found if isinstance(found, Mapping) else {"": found}
    return {name: _predictions(each, *own) for name, each in several.items()}


def _of_one_event(found: Mapping[str, tuple[str, Shown]]) -> tuple[dict[str, Shown], str]:
    """Return the curves by name, and the name of their event."""
    return {name: curve for name, (_, curve) in found.items()}, next(iter(found.values()))[0]


def _evaluation(found: Evaluation | Stated, *own: Any) -> Evaluation:
    if not isinstance(found, Evaluation):
        return evaluate(_predictions(found, *own), calibrators=())
    names = ("labels", "class_names", "positive_class", "groups")
    _refuse(dict(zip(names, own, strict=False)), "an evaluation, which has its own")
    return found


def _parts(found: Evaluation | Comparison) -> dict[str, Arm | ComparedModel]:
    parts = found.models if isinstance(found, Comparison) else tables.before_and_after(found)
    return {part.title: part for part in parts}


def _curve(part: Arm | ComparedModel, class_: Class) -> Curve:
    curves = {POSITIVE_CLASS: part.curves[0]} | {curve.name: curve for curve in part.curves}
    return named(str(class_), curves, "diagram of") if class_ is not None else part.curves[0]


def _risk(given: Predictions) -> RiskCoverageCurve:
    if given.kind == "multilabel":
        raise InputError("risk against coverage needs one label per sample; pass one column at a time.")
    test = test_of(given)
    return selective_risk_curve(test.confidence, 1 - test.correct.double(), weights=test.weights)


def _axes(ax: Axes | None, width: float, height: float) -> Axes:
    if ax is not None:
        if not hasattr(ax, "stairs"):
            raise TypeError(f"`ax` must be axes, as of `figure.subplots()`; got {kind_of(ax)}.")
        return ax
    from matplotlib import pyplot  # only here: pyplot keeps figures, which whoever passes axes does not want

    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def _taken_off(ax: Axes) -> dict[str, Curve]:
    """Remove a display from these axes and return its curves."""
    line = next((line for line in ax.lines if _DRAWN in vars(line)), None)
    if line is None:
        return {}
    curves, artists = vars(line)[_DRAWN]
    for artist in artists:
        artist.remove()
    ax.set(xscale="linear", yscale="linear")
    return dict(curves)


def _title_legend(ax: Axes, name: str) -> None:
    legend = ax.get_legend()
    if name and legend is not None:
        legend.set_alignment("left")
        legend.set_title(name)
        legend.get_title().set_parse_math(False)
