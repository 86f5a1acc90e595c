"""Figures, the HTML report and the summary in the terminal; everything here draws data handed to it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrant.reports.figures import (
        class_errors,
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

_HOME_OF = {
    "class_errors": "figures",
    "confidence_histogram": "figures",
    "corp_diagram": "figures",
    "error_intervals": "figures",
    "reliability_comparison": "figures",
    "reliability_diagram": "figures",
    "risk_coverage_diagram": "figures",
    "roc_diagram": "figures",
    "smooth_diagram": "figures",
    "witness_diagram": "figures",
    "render": "terminal",
    "render_comparison": "terminal",
    "write_report": "html",
}

__all__ = [
    "class_errors",
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


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        return getattr(import_module(f"calibrant.reports.{_HOME_OF[name]}"), name)
    msg = f"module 'calibrant.reports' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
