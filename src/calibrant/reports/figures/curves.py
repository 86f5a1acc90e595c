"""Diagrams without bins: of calibration, and over thresholds (risk against coverage, ROC, net benefit)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from calibrant._math.errors import InputError
from calibrant.evaluation.result import Band, Witness
from calibrant.metrics import (
    CorpReliabilityCurve,
    DecisionCurve,
    RiskCoverageCurve,
    RocCurve,
    SmoothCalibrationWitness,
    SmoothReliabilityCurve,
)
from calibrant.reports.figures import drawing
from calibrant.reports.words import number, of_event

COUNTS_HEIGHT = 0.14  # of the bars of counts, as a share of the diagram


def corp_diagram(
    curves: Mapping[str, CorpReliabilityCurve] | CorpReliabilityCurve,
    *,
    band: Band | None = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Isotonic regression of outcomes on stated probabilities, without bins (CORP).

    A single curve shows its steps as dots, and below them grey bars for the number of samples in each step.
    The band shows the range of a calibrated model's curve. Several named curves are drawn as lines only.

    Args:
        curves: A curve, or several by name.
        band: The consistency band of the one curve.
        ax: Where to draw; a new figure if ``None``.
        legend: Explain the marks inside the diagram.

    Returns:
        The axes drawn into, both running from 0 to 1.

    Raises:
        InputError: If there is no curve, or a band with several.

    References:
        Dimitriadis, Gneiting and Jordan, "Stable reliability diagrams for probabilistic classifiers", PNAS
        118, 2021.

    Example:
        >>> from calibrant.metrics import corp_reliability_curve
        >>> curve = corp_reliability_curve([0.25, 0.5, 0.625, 0.875], [0, 1, 0, 1])
        >>> corp_diagram(curve).get_ylabel()
        'recalibrated probability'
    """
    several = drawing.by_name(curves, CorpReliabilityCurve)
    ax, entries = _square(ax, "predicted probability", "recalibrated probability", several, band)
    for position, (name, curve) in enumerate(several.items()):
        knots = np.stack([curve.lower, curve.upper], axis=1).ravel()
        line = drawing.add_curve(ax, position, knots, np.repeat(curve.values, 2), clip_on=False)
        if not name:  # the number of samples in each step, from its lowest to its highest score
            heights = COUNTS_HEIGHT * np.array(curve.counts) / max(curve.counts)
            lower, upper = np.array(curve.lower), np.array(curve.upper)
            width = np.maximum(upper - lower, 0.006)
            ax.bar((lower + upper) / 2, heights, width=width, color=drawing.GREY, alpha=0.55, linewidth=0)
        entries.append((name or "found", line))
    return drawing.add_legend(ax, entries, shown=legend)


def smooth_diagram(
    curves: Mapping[str, SmoothReliabilityCurve] | SmoothReliabilityCurve,
    *,
    band: Band | None = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Outcomes against stated probabilities, both smoothed by the kernel of smECE.

    The line is wide where samples are dense; a thin line is weak evidence.

    Args:
        curves: A curve of :func:`calibrant.metrics.smooth_reliability_curve`, or several by name.
        band: The noise band of the one curve (:func:`calibrant.evaluation.smooth_consistency_band`).
        ax: Where to draw; a new figure if ``None``.
        legend: Name the curves inside the diagram.

    Returns:
        The axes drawn into, both running from 0 to 1.

    Raises:
        InputError: If there is no curve, or a band with several.

    References:
        Błasiok and Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing", ICLR 2024.

    Example:
        >>> from calibrant.metrics import smooth_reliability_curve
        >>> curve = smooth_reliability_curve([0.2, 0.4, 0.6, 0.9], [0, 1, 0, 1])
        >>> smooth_diagram(curve).get_xlabel()
        'stated, smoothed'
    """
    several = drawing.by_name(curves, SmoothReliabilityCurve)
    ax, entries = _square(ax, "stated, smoothed", "found, smoothed", several, band)
    for position, (name, curve) in enumerate(several.items()):
        stated, found = drawing.floats(curve.confidence), drawing.floats(curve.outcome)
        half = 0.03 * np.array(curve.density) / max(*curve.density, 1e-300)
        ax.fill_between(
            stated, found - half, found + half, color=drawing.series(position)[0], alpha=0.35, linewidth=0
        )
        line = drawing.add_curve(ax, position, stated, found)
        entries.append((name or "found; wide where samples are many", line))
    return drawing.add_legend(ax, entries, shown=legend)


def witness_diagram(
    witness: SmoothCalibrationWitness | Witness, *, ax: Axes | None = None, legend: bool = True
) -> Axes:
    """The function that attains the smooth calibration error: place and direction of the errors.

    Above zero the predictions are too low, below zero too high.

    Args:
        witness: From :func:`calibrant.metrics.smooth_calibration_witness`, or of an evaluation.
        ax: Where to draw; a new figure if ``None``.
        legend: Explain the two colours inside the diagram.

    Returns:
        The axes drawn into; across from 0 to 1, up from −1 to 1.

    References:
        Błasiok, Gopalan, Hu and Nakkiran, "A Unifying Theory of Distance from Calibration", STOC 2023.

    Example:
        >>> from calibrant.metrics import smooth_calibration_witness
        >>> witness = smooth_calibration_witness([0.8, 0.8, 0.9, 0.9], [0, 1, 0, 1])
        >>> witness_diagram(witness).get_title()
        'smCE 0.3500'
    """
    ax = drawing.new_axes(ax, width=4.2, height=2.6)
    points, values = (np.asarray(each, dtype=np.float64) for each in (witness.points, witness.values))
    crossings = _with_zeros(points, values)
    ax.axhline(0, color=ax.xaxis.label.get_color(), linewidth=0.8)
    entries: list[tuple[str, Artist]] = []
    for label, part, colour in (
        ("above: too low", np.maximum(crossings[1], 0), drawing.BLUE),
        ("below: too high", np.minimum(crossings[1], 0), drawing.VERMILLION),
    ):
        ax.fill_between(crossings[0], 0, part, color=colour, alpha=0.35, linewidth=0)
        entries.append((label, Patch(color=colour, alpha=0.35, linewidth=0)))
    ax.plot(points, values, color=ax.xaxis.label.get_color(), linewidth=1.2)
    ax.set(xlim=(0, 1), ylim=(-1.05, 1.05), xticks=np.linspace(0, 1, 6), yticks=[-1, 0, 1])
    ax.set(xlabel="predicted probability", ylabel="witness")
    ax.set_title(f"smCE {number(witness.value)}", fontsize="medium")
    drawing.open_frame(ax)
    return drawing.add_legend(ax, entries, shown=legend)


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


def _square(
    ax: Axes | None, across: str, up: str, curves: Mapping[str, object], band: Band | None
) -> tuple[Axes, list[tuple[str, Artist]]]:
    """Both axes from 0 to 1, the line of a calibrated model, and the band of the one curve."""
    if band is not None and len(curves) > 1:
        raise InputError(f"`band` belongs to one curve; got {len(curves)} curves.")
    ax = drawing.new_axes(ax, width=4.2, height=4.2)
    drawing.unit_square(ax, across, up)
    entries: list[tuple[str, Artist]] = [("calibrated", drawing.diagonal(ax))]
    if band is not None:
        ax.fill_between(band.positions, band.low, band.high, color=drawing.GREY, alpha=0.3, linewidth=0)
        entries.append(drawing.noise_key())
    return ax, entries


def _with_zeros(points: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
    """Add the zero crossings of a piecewise linear function to its points."""
    before, after = values[:-1], values[1:]
    crossing = np.flatnonzero(before * after < 0)
    share = before[crossing] / (before[crossing] - after[crossing])
    zeros = points[crossing] + share * (points[crossing + 1] - points[crossing])
    order = np.argsort(np.concatenate([points, zeros]), kind="stable")
    return np.concatenate([points, zeros])[order], np.concatenate([values, np.zeros(len(zeros))])[order]
