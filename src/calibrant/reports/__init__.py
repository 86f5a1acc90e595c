"""Figures, the HTML report and the summary in the terminal; everything here draws data handed to it."""

from typing import TYPE_CHECKING

from calibrant._math.lazy import declared_exports

if TYPE_CHECKING:
    from calibrant.reports.figures import class_errors as class_errors
    from calibrant.reports.figures import class_shifts as class_shifts
    from calibrant.reports.figures import confidence_comparison as confidence_comparison
    from calibrant.reports.figures import confidence_histogram as confidence_histogram
    from calibrant.reports.figures import corp_diagram as corp_diagram
    from calibrant.reports.figures import error_intervals as error_intervals
    from calibrant.reports.figures import reliability_comparison as reliability_comparison
    from calibrant.reports.figures import reliability_diagram as reliability_diagram
    from calibrant.reports.figures import risk_coverage_diagram as risk_coverage_diagram
    from calibrant.reports.figures import roc_diagram as roc_diagram
    from calibrant.reports.figures import smooth_diagram as smooth_diagram
    from calibrant.reports.figures import witness_diagram as witness_diagram
    from calibrant.reports.html import write_report as write_report
    from calibrant.reports.terminal import render as render
    from calibrant.reports.terminal import render_comparison as render_comparison

__getattr__, __dir__, __all__ = declared_exports(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
