"""Every figure that one command draws: of files of predictions, of the theory, and of small experiments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from calibrant._math.text_form import named
from calibrant.experiments.file_figures.diagrams import (
    draw_classes,
    draw_confidence,
    draw_reliability,
    draw_risk_coverage,
    draw_roc,
)
from calibrant.experiments.file_figures.landscape import draw_landscape
from calibrant.experiments.file_figures.request import FileFigure
from calibrant.reports.figures.theory_roster import FIGURES as OF_THE_THEORY
from calibrant.reports.figures.theory_roster import TheoryFigure


@dataclass(frozen=True, kw_only=True)
class StudyFigure:
    """A figure of an experiment that takes seconds."""

    name: str
    summary: str
    draw: Callable[[], Figure]
    note: str = ""
    """As in :class:`~calibrant.reports.figures.theory_roster.TheoryFigure`."""


def _linear_model() -> Figure:
    from calibrant.experiments.studies.linear_model.figures import draw_figures
    from calibrant.experiments.studies.linear_model.measure import simulate
    from calibrant.experiments.studies.linear_model.numbers import numbers_of
    from calibrant.experiments.studies.linear_model.settings import DEFAULT

    return draw_figures(numbers_of([{**vars(DEFAULT), "seed": 0, **simulate(DEFAULT, 0)}], {}))[0]


def _decision_boundaries() -> Figure:
    from calibrant.experiments.studies.fcl_boundaries.figures import draw_figure

    return draw_figure()


_SHAPE = frozenset({"positive_class", "bins", "level", "seed"})
OF_FILES = (
    FileFigure(
        name="reliability",
        summary="What FILE states against what came true, with intervals, what chance gives, and histogram.",
        draw_files=draw_reliability,
        several=True,
        options=_SHAPE | {"label"},
    ),
    FileFigure(
        name="confidence",
        summary="How sure the model of FILE was where it was right, and where it was wrong.",
        draw_files=draw_confidence,
        several=True,
        options=_SHAPE | {"label"},
    ),
    FileFigure(
        name="roc",
        summary="ROC curve of the positive class in FILE, or of its labels together.",
        draw_files=draw_roc,
        several=True,
        options=frozenset({"positive_class"}),
    ),
    FileFigure(
        name="risk-coverage",
        summary="The error rate in FILE if only the surest answers are given.",
        draw_files=draw_risk_coverage,
        several=True,
        options=frozenset({"positive_class"}),
    ),
    FileFigure(
        name="classes",
        summary="The classes or labels of FILE with the largest calibration errors.",
        draw_files=draw_classes,
        options=frozenset({"positive_class", "bins"}),
    ),
    FileFigure(
        name="landscape",
        summary="The objective of focal temperature scaling over exponent and temperature, for a FILE of "
        "predictions.",
        draw_files=draw_landscape,
        options=frozenset({"objective", "label", "every_row", "resamples", "seed"}),
    ),
)

FIGURES: tuple[TheoryFigure | StudyFigure | FileFigure, ...] = (
    *OF_FILES,
    *OF_THE_THEORY,
    StudyFigure(
        name="linear-model",
        summary="Norms, confidence of mistakes and boundaries of a linear model (Mukhoti et al. 2020, "
        "figures 5 and 6).",
        draw=_linear_model,
        note="That cross-entropy makes nearly all its mistakes above 90 % is not reproduced: the mistakes "
        "are flipped labels, and about as many of all points lie there. `calibrant study linear-model` has "
        "the numbers over seeds.",
    ),
    StudyFigure(
        name="fcl-boundaries",
        summary="What a small network learns with focal and with focal calibration loss (focal calibration "
        "loss 2025, figure 7).",
        draw=_decision_boundaries,
        note="The paper does not name its points beyond two classes and noise 0.2; these are half-moons. "
        "With gamma = 10 focal loss leaves the network unsure (mean confidence about 0.7, accuracy 0.96); "
        "the squared distance makes it as sure as it is right, and the boundary among the points is much "
        "the same.",
    ),
)


def figure_named(name: str) -> TheoryFigure | StudyFigure | FileFigure:
    """The figure of that name.

    Raises:
        InputError: If there is none.

    Example:
        >>> figure_named("focal-arrows").name
        'focal-arrows'
    """
    return named(
        name, {each.name: each for each in FIGURES}, "figure", remedy=" `calibrant figure --list` says more."
    )
