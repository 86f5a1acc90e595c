"""Every figure that one command draws: of the theory, of small experiments, and of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from calibrant._math.text_form import named
from calibrant.reports.figures.theory_roster import FIGURES as OF_THE_THEORY
from calibrant.reports.figures.theory_roster import TheoryFigure


@dataclass(frozen=True, kw_only=True)
class StudyFigure:
    """A figure of an experiment that takes seconds, or of a file of predictions."""

    name: str
    summary: str
    draw: Callable[[], Figure] | None
    """None for a figure that the command draws from a file."""
    note: str = ""
    """As in :class:`~calibrant.reports.figures.theory_roster.TheoryFigure`."""


LANDSCAPE = StudyFigure(
    name="landscape",
    summary="The objective of focal temperature scaling over exponent and temperature, for a FILE of "
    "predictions.",
    draw=None,
)


def _linear_model() -> Figure:
    from calibrant.experiments.studies.linear_model.figures import draw_figure
    from calibrant.experiments.studies.linear_model.measure import simulate
    from calibrant.experiments.studies.linear_model.settings import DEFAULT

    return draw_figure([simulate(DEFAULT, 0)])


def _decision_boundaries() -> Figure:
    from calibrant.experiments.studies.fcl_boundaries.figures import draw_figure

    return draw_figure()


FIGURES: tuple[TheoryFigure | StudyFigure, ...] = (
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
    LANDSCAPE,
)


def figure_named(name: str) -> TheoryFigure | StudyFigure:
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
