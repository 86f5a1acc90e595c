"""Diagrams over thresholds: risk against coverage, ROC, and net benefit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from calibrant.metrics import DecisionCurve, RiskCoverageCurve, RocCurve
from calibrant.reports.figures import drawing
from calibrant.reports.words import number, of_event


def risk_coverage_diagram(
    curves: Mapping[str, RiskCoverageCurve] | RiskCoverageCurve,
    *,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Error rate among the answered samples, against their share.

    For one curve the dotted line is the best order that this accuracy allows.

    Args:
        curves: A curve of :func:`calibrant.metrics.risk_coverage_curve`, or several by name.
        ax: Where to draw; a new figure if ``None``.
        legend: Name the curves, with their areas, inside the diagram.

    Returns:
        The axes drawn into; across from 0 to 1, up from 0.

    Raises:
        InputError: If there is no curve.

    References:
        El-Yaniv and Wiener, "On the Foundations of Noise-free Selective Classification", JMLR 11, 2010.

    Example:
        >>> from calibrant.metrics import selective_risk_curve
        >>> ax = risk_coverage_diagram(selective_risk_curve([0.9, 0.6, 0.2], [0, 0, 1]))
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('share of samples answered', 'error rate among them')
    """
    several = drawing.by_name(curves, RiskCoverageCurve)
    ax = drawing.new_axes(ax, width=4.2, height=3.0)
    entries: list[tuple[str, Artist]] = []
    for position, (name, curve) in enumerate(several.items()):
        # The risk holds from one threshold to the next; the first stretch has the first risk.
        x, y = np.append(0.0, curve.coverage), np.append(curve.risk[0], curve.risk)
        line = drawing.add_curve(ax, position, x, y)
        entries.append((f"{name or 'found'} (area {number(curve.area)})", line))
        if not name:
            overall = curve.risk[-1]
            coverage = np.linspace(max(1 - overall, 1e-9), 1, 50)
            best = np.append(0.0, (coverage - (1 - overall)) / coverage)
            (line,) = ax.plot(
                np.append(0.0, coverage), best, color=drawing.GREY, linestyle=":", linewidth=1.4
            )
            entries.append((f"best order (area {number(curve.area - curve.excess_area)})", line))
    highest = max(max(curve.risk) for curve in several.values())
    ax.set(xlim=(0, 1), ylim=(0, 1.08 * highest or 1), xticks=np.linspace(0, 1, 6))
    ax.set(xlabel="share of samples answered", ylabel="error rate among them")
    drawing.open_frame(ax)
    return drawing.add_legend(ax, entries, shown=legend)


def roc_diagram(
    curves: Mapping[str, RocCurve] | RocCurve, *, ax: Axes | None = None, legend: bool = True
) -> Axes:
    """True positive rate against false positive rate.

    Args:
        curves: A curve of :func:`calibrant.metrics.roc_curve`, or several by name.
        ax: Where to draw; a new figure if ``None``.
        legend: Name the curves inside the diagram.

    Returns:
        The axes drawn into, both running from 0 to 1.

    Raises:
        InputError: If there is no curve.

    References:
        Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27, 2006.

    Example:
        >>> from calibrant.metrics import roc_curve
        >>> ax = roc_diagram({"network": roc_curve([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1])})
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['guessing', 'network']
    """
    several = drawing.by_name(curves, RocCurve)
    ax = drawing.new_axes(ax, width=4.2, height=4.2)
    entries: list[tuple[str, Artist]] = [("guessing", drawing.diagonal(ax))]
    for position, (name, curve) in enumerate(several.items()):
        line = drawing.add_curve(
            ax, position, curve.false_positive_rate, curve.true_positive_rate, clip_on=False
        )
        entries.append((name or "found", line))
    drawing.unit_square(ax, "false positives: share of negatives", "true positives: share of positives")
    return drawing.add_legend(ax, entries, shown=legend)


def decision_diagram(
    curves: Mapping[str, DecisionCurve] | DecisionCurve,
    event: str = "",
    *,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Net benefit by threshold with its interval, against treating everyone (of the first) and no one."""
    several = drawing.by_name(curves, DecisionCurve)
    ax = drawing.new_axes(ax, width=4.2, height=3.2)
    first = next(iter(several.values()))
    entries: list[tuple[str, Artist]] = []
    for position, (name, curve) in enumerate(several.items()):
        line = drawing.add_curve(
            ax, position, curve.thresholds, curve.net_benefit, band=(curve.low, curve.high)
        )
        entries.append((name or "model", line))
    style: dict[str, Any] = {"color": drawing.GREY, "linewidth": 1.2}
    (everyone,) = ax.plot(first.thresholds, first.treat_all, linestyle=drawing.DASHED, **style)
    no_one = ax.axhline(0, **style)
    top = max(*first.treat_all, *(each for curve in several.values() for each in curve.high), 1e-9)
    ax.set(
        xlim=(0, max(curve.thresholds[-1] for curve in several.values())), ylim=(-0.2 * top, 1.35 * top)
    )  # with room for names
    ax.set(xlabel=of_event("threshold probability", event), ylabel="net benefit")
    drawing.open_frame(ax)
    entries += [("treat everyone", everyone), ("treat no one", no_one)]
    return drawing.add_legend(ax, entries, shown=legend)
