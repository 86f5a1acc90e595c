"""Figures, the HTML report and the summary in the terminal; everything here draws data handed to it."""

from typing import TYPE_CHECKING

from calibrant._math.lazy import lazy_exports

if TYPE_CHECKING:
    from calibrant.reports.figures import (
        class_errors,
        class_shifts,
        confidence_comparison,
        confidence_histogram,
        corp_diagram,
        error_intervals,
        reliability_comparison,
        reliability_diagram,
        risk_coverage_diagram,
        roc_diagram,
        smooth_diagram,
        witness_diagram,
    )
    from calibrant.reports.html import write_report
    from calibrant.reports.terminal import render, render_comparison

__all__ = [
    "class_errors",
    "class_shifts",
    "confidence_comparison",
    "confidence_histogram",
    "corp_diagram",
    "error_intervals",
    "reliability_comparison",
    "reliability_diagram",
    "render",
    "render_comparison",
    "risk_coverage_diagram",
    "roc_diagram",
    "smooth_diagram",
    "witness_diagram",
    "write_report",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    __all__,  # what the later entries do not name stands in `figures`
    {"figures": __all__, "terminal": ["render", "render_comparison"], "html": ["write_report"]},
)
