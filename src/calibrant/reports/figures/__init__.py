"""The diagrams: each takes the data of an evaluation and an ``ax``, draws, and returns the ``Axes``.

Without ``ax`` a figure of its own is made, outside pyplot's registry; ``axes.figure.savefig(...)`` writes it.
Colours suit colour-blind readers, and a shape or a word repeats their meaning.
"""

from typing import TYPE_CHECKING

from calibrant._math.lazy import declared_exports

if TYPE_CHECKING:
    from calibrant.reports.figures.curves import corp_diagram as corp_diagram
    from calibrant.reports.figures.curves import decision_diagram as decision_diagram
    from calibrant.reports.figures.curves import risk_coverage_diagram as risk_coverage_diagram
    from calibrant.reports.figures.curves import roc_diagram as roc_diagram
    from calibrant.reports.figures.curves import smooth_diagram as smooth_diagram
    from calibrant.reports.figures.curves import witness_diagram as witness_diagram
    from calibrant.reports.figures.drawing import BLUE as BLUE
    from calibrant.reports.figures.drawing import GREEN as GREEN
    from calibrant.reports.figures.drawing import GREY as GREY
    from calibrant.reports.figures.drawing import OCHRE as OCHRE
    from calibrant.reports.figures.drawing import PINK as PINK
    from calibrant.reports.figures.drawing import SKY as SKY
    from calibrant.reports.figures.drawing import VERMILLION as VERMILLION
    from calibrant.reports.figures.drawing import series as series
    from calibrant.reports.figures.errors import class_errors as class_errors
    from calibrant.reports.figures.errors import class_shifts as class_shifts
    from calibrant.reports.figures.errors import error_intervals as error_intervals
    from calibrant.reports.figures.errors import group_gaps as group_gaps
    from calibrant.reports.figures.reliability import confidence_comparison as confidence_comparison
    from calibrant.reports.figures.reliability import confidence_histogram as confidence_histogram
    from calibrant.reports.figures.reliability import flexible_diagram as flexible_diagram
    from calibrant.reports.figures.reliability import place as place
    from calibrant.reports.figures.reliability import reliability_comparison as reliability_comparison
    from calibrant.reports.figures.reliability import reliability_diagram as reliability_diagram
    from calibrant.reports.figures.reliability import repair_diagram as repair_diagram

__getattr__, __dir__, __all__ = declared_exports(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
