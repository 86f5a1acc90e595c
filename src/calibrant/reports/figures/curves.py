"""Diagrams without bins: CORP, the smooth diagram, the witness of the smooth calibration error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from calibrant._math.errors import InputError
from calibrant.evaluation.result import Band, Witness
from calibrant.metrics import CorpReliabilityCurve, SmoothCalibrationWitness, SmoothReliabilityCurve
from calibrant.reports.figures import drawing
from calibrant.reports.words import number

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
        if not name:
            _counts(ax, curve)
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


def _counts(ax: Axes, curve: CorpReliabilityCurve) -> None:
    """Draw the number of samples in each step, as a bar from its lowest to its highest score."""
    heights = COUNTS_HEIGHT * np.array(curve.counts) / max(curve.counts)
    lower, upper = np.array(curve.lower), np.array(curve.upper)
    width = np.maximum(upper - lower, 0.006)
    ax.bar((lower + upper) / 2, heights, width=width, color=drawing.GREY, alpha=0.55, linewidth=0)


def _with_zeros(points: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
    """Add the zero crossings of a piecewise linear function to its points."""
    before, after = values[:-1], values[1:]
    crossing = np.flatnonzero(before * after < 0)
    share = before[crossing] / (before[crossing] - after[crossing])
    zeros = points[crossing] + share * (points[crossing + 1] - points[crossing])
    order = np.argsort(np.concatenate([points, zeros]), kind="stable")
    return np.concatenate([points, zeros])[order], np.concatenate([values, np.zeros(len(zeros))])[order]
