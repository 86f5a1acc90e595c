"""The diagrams: each takes the data of an evaluation and an ``ax``, draws, and returns the ``Axes``.

Without ``ax`` a figure of its own is made, outside pyplot's registry; ``axes.figure.savefig(...)`` writes it.
Colours are chosen for colour-blind readers, and whatever a colour says a shape or a word says too.
"""

from calibrant.reports.figures.curves import corp_diagram, smooth_diagram, witness_diagram
from calibrant.reports.figures.drawing import BLUE, GREEN, GREY, OCHRE, PINK, SKY, VERMILLION, series
from calibrant.reports.figures.errors import class_errors, class_shifts, error_intervals
from calibrant.reports.figures.ranking import risk_coverage_diagram, roc_diagram
from calibrant.reports.figures.reliability import (
    confidence_comparison,
    confidence_histogram,
    place,
    reliability_comparison,
    reliability_diagram,
)

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "OCHRE",
    "PINK",
    "SKY",
    "VERMILLION",
    "class_errors",
    "class_shifts",
    "confidence_comparison",
    "confidence_histogram",
    "corp_diagram",
    "error_intervals",
    "place",
    "reliability_comparison",
    "reliability_diagram",
    "risk_coverage_diagram",
    "roc_diagram",
    "series",
    "smooth_diagram",
    "witness_diagram",
]
