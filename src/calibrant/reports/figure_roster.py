"""Every figure that one command draws: of files of predictions, of the theory, and of small experiments."""

from __future__ import annotations

from typing import Protocol

from matplotlib.figure import Figure

from calibrant._math.extensions import extensions
from calibrant._math.text_form import named
from calibrant.reports.file_figures.diagrams import (
    draw_classes,
    draw_confidence,
    draw_reliability,
    draw_risk_coverage,
    draw_roc,
)
from calibrant.reports.file_figures.landscape import draw_landscape
from calibrant.reports.file_figures.request import FileFigure


class OtherFigure(Protocol):
    """A figure of the theory, which another distribution adds."""

    name: str
    summary: str
    note: str
    """What cannot be reproduced of the published one; may be empty."""

    def draw(self) -> Figure:
        """The whole figure."""
        ...


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


def all_figures() -> tuple[FileFigure | OtherFigure, ...]:
    """The figures of files, and what is installed beside them."""
    return (*OF_FILES, *(figure for found in extensions("calibrant.figures") for figure in found.load()))


def figure_named(name: str) -> FileFigure | OtherFigure:
    """The figure of that name.

    Raises:
        InputError: If there is none.

    Example:
        >>> figure_named("focal-arrows").name
        'focal-arrows'
    """
    return named(
        name,
        {each.name: each for each in all_figures()},
        "figure",
        remedy=" `calibrant figure --list` lists them; calibrant-lab adds those of the theory.",
    )
