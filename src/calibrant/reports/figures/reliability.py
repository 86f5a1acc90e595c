"""Reliability diagrams with bins, and the histogram below them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter
from numpy import ndarray

from calibrant._math.shapes import Bool, Float
from calibrant.evaluation.result import Curve
from calibrant.metrics import FlexibleCalibrationCurve
from calibrant.reports.figures import drawing
from calibrant.reports.words import count, halves, misses, number, of_event

MOST_RARE = 0.5  # the largest share of a bin that is shown by its logarithm
SAME_WIDTH = 1e-9
WIDEST_JOINED = 0.3  # interval of a bin's share
NEAR_ONE = 0.95  # above it, marks near 1 would lie over one another
STRETCHED = (0.01, 0.1, 0.5, 0.8, 0.95, 0.99, 0.999, 0.9999)
HOLLOW = "too few samples to tell"
WITHIN = "within its band"
BANDS = "bands: noise"


def reliability_diagram(
    curve: Curve, *, ax: Axes | None = None, legend: bool = True, log: bool | None = None
) -> Axes:
    """Actual rate against stated probability, one point per bin.

    A point's area grows with the bin's share of the samples. Its bar is the interval of the rate, and the
    grey band is the range of a calibrated model's points. Points outside the band are coloured triangles:
    they point down below it (the model claims too much) and up above it.

    Args:
        curve: The bins; empty ones are left out.
        ax: Where to draw; a new figure if ``None``.
        legend: Explain the marks inside the diagram.
        log: Logarithmic axes; if ``None``, only for a rare event in bins of equal mass.

    Returns:
        The axes drawn into, both running from 0 to 1; for bins of equal mass, over their range,
            logarithmic for a rare event.

    Example:
        >>> curve = Curve(
        ...     name="top label", edges=(0, 0.5, 1), counts=(4, 6), confidence=(0.4, 0.9),
        ...     accuracy=(0.5, 0.5), low=(0.1, 0.2), high=(0.9, 0.8),
        ...     expected_low=(0, 0.7), expected_high=(0.8, 1),
        ...     histogram_edges=(0, 0.5, 1), histogram_correct=(2, 3), histogram_incorrect=(2, 3))
        >>> reliability_diagram(curve).get_xlabel()
        'confidence'
    """
    ax = drawing.new_axes(ax, width=4.2, height=4.2)
    _square(ax, [curve], log)
    _band(ax, curve, drawing.GREY, alpha=0.3)
    entries: list[tuple[str, Artist]] = [("calibrated", drawing.diagonal(ax)), drawing.noise_key()]
    area = _areas(curve.counts)
    too_much, too_little = misses(curve.name)
    labels = (WITHIN, f"below it: {too_much}", f"above it: {too_little}")
    for label, (chosen, colour, shape) in zip(labels, _by_place(ax, curve), strict=True):
        if not chosen.any():
            continue
        _intervals(ax, curve, chosen, colour)
        _points(ax, curve, chosen, area, colour, shape)
        entries.append((label, Line2D([], [], color=colour, marker=shape, linestyle="none", markersize=6)))
    return drawing.add_legend(ax, entries, shown=legend)


def reliability_comparison(
    curves: Mapping[str, Curve],
    *,
    ax: Axes | None = None,
    legend: bool = True,
    bands: bool = False,
    log: bool | None = None,
) -> Axes:
    """Several reliability diagrams in one picture, each with a colour, a shape and a line of its own.

    A point's area grows with the bin's share of the samples, its bar is the interval of the share. Bins that
    hold too few samples to tell their share to within 15 points are hollow, without a bar and not joined.

    Args:
        curves: Curves by name.
        ax: Where to draw; a new figure if ``None``.
        legend: Name the curves inside the diagram.
        bands: Draw the noise band of each curve, in its colour.
        log: As in :func:`reliability_diagram`.

    Returns:
        The axes drawn into, both running from 0 to 1.

    Raises:
        InputError: If there is no curve.

    Example:
        >>> curve = Curve(
        ...     name="top label", edges=(0, 0.5, 1), counts=(400, 600), confidence=(0.4, 0.9),
        ...     accuracy=(0.5, 0.5), low=(0.45, 0.46), high=(0.55, 0.54),
        ...     expected_low=(0, 0.7), expected_high=(0.8, 1),
        ...     histogram_edges=(0, 0.5, 1), histogram_correct=(200, 300), histogram_incorrect=(200, 300))
        >>> ax = reliability_comparison({"network A": curve, "network B": curve})
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['calibrated', 'network A', 'network B']
    """
    curves = drawing.by_name(curves, Curve)
    ax = drawing.new_axes(ax, width=4.2, height=4.2)
    _square(ax, list(curves.values()), log)
    entries: list[tuple[str, Artist]] = [("calibrated", drawing.diagonal(ax))]
    any_few = False
    for position, (name, curve) in enumerate(curves.items()):
        colour, shape, dashes = drawing.series(position)
        stated, found = drawing.floats(curve.confidence), drawing.floats(curve.accuracy)
        if bands:
            _band(ax, curve, colour, alpha=0.13)
        known = _known(curve) & ~np.isnan(found)
        _intervals(ax, curve, known, colour, alpha=0.5)
        ax.plot(stated[known], found[known], color=colour, linewidth=1, linestyle=dashes, alpha=0.6)
        area = _areas(curve.counts) / 3
        few = ~known & ~np.isnan(found)
        _points(ax, curve, known, area, colour, shape)
        _points(ax, curve, few, area, colour, shape, hollow=True)
        any_few |= bool(few.any())
        line = Line2D([], [], color=colour, linewidth=1, linestyle=dashes, marker=shape, markersize=4)
        entries.append((name, line))
    if bands:
        entries.append(drawing.noise_key(BANDS))
    if any_few:
        style: Any = {"linestyle": "none", "fillstyle": "none", "color": drawing.GREY}
        entries.append((HOLLOW, Line2D([], [], marker="o", markersize=4, **style)))
    return drawing.add_legend(ax, entries, shown=legend)


def repair_diagram(before: Curve, after: Curve | None = None, *, ax: Axes | None = None) -> Axes:
    """Reliability before (hollow marks) and after a repair (filled), in the colours of other diagrams.

    Bins with too few samples to tell are left out. Axes that reach above 95% are stretched near 100%.
    """
    ax, curves = drawing.new_axes(ax), [before] if after is None else [before, after]
    _square(ax, curves, log=False)
    shown = np.concatenate(
        [drawing.floats(column)[_known(c)] for c in curves for column in (c.confidence, c.accuracy)]
    )
    low, high = float(np.nanmin(shown, initial=1.0)), float(np.nanmax(shown, initial=0.0))
    if NEAR_ONE < high < 1 and low > 0:
        odds = np.array([low / (1 - low) / 1.6, high / (1 - high) * 1.6])
        limits = tuple((odds / (1 + odds)).tolist())
        ax.set(xscale="logit", yscale="logit", xlim=limits, ylim=limits)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_ticks([tick for tick in STRETCHED if limits[0] <= tick <= limits[1]])
            axis.set_ticks([], minor=True)
            axis.set_major_formatter(_percent)
        ax.set_xlabel(f"{ax.get_xlabel()}, stretched near 100%")
    drawing.diagonal(ax)
    areas = np.full(len(before.counts), 30.0)
    for curve, hollow in zip(curves, (True, False), strict=False):
        stated, known = drawing.floats(curve.confidence), _known(curve)
        least, most = drawing.floats(curve.expected_low), drawing.floats(curve.expected_high)
        ax.vlines(stated[known], least[known], most[known], color=drawing.GREY, alpha=0.25, linewidth=9)
        for chosen, colour, _ in _by_place(ax, curve):
            _points(ax, curve, chosen & known, areas, colour, "o", hollow=hollow)
    return ax


def _in_band(curve: Curve) -> Sequence[Bool[ndarray, " B"]]:
    """Bins within, below and above the band of a calibrated model."""
    found = drawing.floats(curve.accuracy)
    below, above = found < drawing.floats(curve.expected_low), found > drawing.floats(curve.expected_high)
    return ~(below | above | np.isnan(found)), below, above


def _by_place(ax: Axes, curve: Curve) -> list[tuple[Bool[ndarray, " B"], Any, str]]:
    (within, below, above), ink = _in_band(curve), ax.xaxis.label.get_color()
    return [(within, ink, "o"), (below, drawing.VERMILLION, "v"), (above, drawing.BLUE, "^")]


def flexible_diagram(
    curves: Mapping[str, FlexibleCalibrationCurve] | FlexibleCalibrationCurve,
    event: str = "",
    *,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Flexible calibration curves with their bands; the axes cover the curves, and 0 if it is near."""
    several = drawing.by_name(curves, FlexibleCalibrationCurve)
    ax = drawing.new_axes(ax, width=4.2, height=4.2)
    ends = np.concatenate([[*curve.positions, *curve.actual] for curve in several.values()])
    low, high = float(ends.min()), float(ends.max())
    room = 0.05 * (high - low)
    limits = (0.0 if low < (high - low) / 2 else low - room, min(1.0, high + room))
    what, found = _titles(event)
    ax.set(xlim=limits, ylim=limits, aspect="equal", xlabel=what, ylabel=found)
    drawing.open_frame(ax)
    entries: list[tuple[str, Artist]] = [("calibrated", drawing.diagonal(ax))]
    for position, (name, curve) in enumerate(several.items()):
        line = drawing.add_curve(ax, position, curve.positions, curve.actual, band=(curve.low, curve.high))
        entries.append((f"{name or 'model'} (ICI {number(curve.ici)})", line))
    return drawing.add_legend(ax, entries, shown=legend)


def confidence_histogram(curve: Curve, *, ax: Axes | None = None) -> Axes:
    """Histogram of confidence for correct (upwards) and wrong answers (downwards), in samples.

    Both halves share a square-root scale, because wrong answers are often few.

    Args:
        curve: The curve with the histogram.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into; counts of wrong answers are negative.

    Example:
        >>> curve = Curve(
        ...     name="top label", edges=(0, 0.5, 1), counts=(4, 6), confidence=(0.4, 0.9),
        ...     accuracy=(0.5, 0.5), low=(0.1, 0.2), high=(0.9, 0.8),
        ...     expected_low=(0, 0.7), expected_high=(0.8, 1),
        ...     histogram_edges=(0, 0.5, 1), histogram_correct=(2, 3), histogram_incorrect=(2, 2))
        >>> [label.get_text() for label in confidence_histogram(curve).get_yticklabels()]
        ['2', '0', '3']
    """
    ax = drawing.new_axes(ax, width=4.2, height=2.2)
    right, wrong = np.array(curve.histogram_correct), np.array(curve.histogram_incorrect)
    top, bottom = max(int(right.max()), 1), max(int(wrong.max()), 1)
    ax.stairs(right, curve.histogram_edges, fill=True, color=drawing.GREEN, linewidth=0)
    ax.stairs(-wrong, curve.histogram_edges, fill=True, color=drawing.PINK, linewidth=0)
    ax.axhline(0, color=ax.xaxis.label.get_color(), linewidth=0.8)

    def shown(counts: Float[ndarray, " K"]) -> Float[ndarray, " K"]:
        return np.sign(counts) * np.sqrt(np.abs(counts))

    def counted(heights: Float[ndarray, " K"]) -> Float[ndarray, " K"]:
        return np.sign(heights) * heights**2

    ax.set_yscale("function", functions=(shown, counted))
    room = 0.28 * (np.sqrt(top) + np.sqrt(bottom))  # for words beyond the bars
    ax.set_ylim(*(counted(np.array([-np.sqrt(bottom) - room, np.sqrt(top) + room])).tolist()))
    marks = {-bottom: _tick(bottom), 0: "0", top: _tick(top)}
    apart = 0.22 * (np.sqrt(top) + np.sqrt(bottom))  # nearer to zero a number would lie on its
    marks = {at: said for at, said in marks.items() if at == 0 or np.sqrt(abs(at)) > apart}
    ax.set_yticks(list(marks), list(marks.values()), minor=False)
    ax.set_yticks([], minor=True)
    _across(ax, [curve])
    ax.set_ylabel("samples (√)")
    drawing.open_frame(ax)
    up, down = halves(curve.name)
    half, heights = len(right) // 2, np.maximum(right / max(right.max(), 1), wrong / max(wrong.max(), 1))
    left_is_lower = heights[:half].max(initial=0) <= heights[half:].max(initial=0)  # words fit there
    side, where = ("left", 0.02) if left_is_lower else ("right", 0.98)
    style: Any = {"transform": ax.transAxes, "horizontalalignment": side}
    ax.text(where, 0.99, f"{count(int(right.sum()))} {up}", verticalalignment="top", **style)
    ax.text(where, 0.01, f"{count(int(wrong.sum()))} {down}", verticalalignment="bottom", **style)
    return ax


def confidence_comparison(
    curves: Mapping[str, Curve], *, ax: Axes | None = None, legend: bool = True
) -> Axes:
    """Confidence of several models: the share of their samples at each confidence.

    Args:
        curves: Curves with histograms, by name.
        ax: Where to draw; a new figure if ``None``.
        legend: Name the curves inside the diagram.

    Returns:
        The axes drawn into.

    Raises:
        InputError: If there is no curve.

    Example:
        >>> curve = Curve(
        ...     name="top label", edges=(0, 0.5, 1), counts=(4, 6), confidence=(0.4, 0.9),
        ...     accuracy=(0.5, 0.5), low=(0.1, 0.2), high=(0.9, 0.8),
        ...     expected_low=(0, 0.7), expected_high=(0.8, 1),
        ...     histogram_edges=(0, 0.5, 1), histogram_correct=(2, 3), histogram_incorrect=(2, 3))
        >>> confidence_comparison({"a": curve, "b": curve}).get_ylabel()
        'share of samples'
    """
    curves = drawing.by_name(curves, Curve)
    ax = drawing.new_axes(ax, width=4.2, height=2.6)
    entries: list[tuple[str, Artist]] = []
    for position, (name, curve) in enumerate(curves.items()):
        colour, _, dashes = drawing.series(position)
        counts = np.array(curve.histogram_correct) + np.array(curve.histogram_incorrect)
        shares = counts / max(counts.sum(), 1)
        drawn = ax.stairs(shares, curve.histogram_edges, color=colour, linestyle=dashes, linewidth=1.2)
        entries.append((name, drawn))
    ax.set_ylim(0, None)
    _across(ax, list(curves.values()))
    ax.set_ylabel("share of samples")
    drawing.open_frame(ax)
    return drawing.add_legend(ax, entries, shown=legend)


def place(curve: Curve) -> tuple[int, int, int]:
    """Numbers of bins above, below and within the band of a calibrated model."""
    within, below, above = (int(chosen.sum()) for chosen in _in_band(curve))
    return above, below, within


def _titles(event: str) -> tuple[str, str]:
    if event == "top label":
        return "confidence", "accuracy"
    return of_event("predicted probability", event), of_event("actual rate", event)


def _square(ax: Axes, curves: Sequence[Curve], log: bool | None) -> None:
    drawing.unit_square(ax, *_titles(curves[0].name))
    _tick_along(ax, "x", curves, log)
    _tick_along(ax, "y", curves, log)


def _across(ax: Axes, curves: Sequence[Curve]) -> None:
    ax.set_xlabel(_titles(curves[0].name)[0])
    _tick_along(ax, "x", curves)


def _shown(curves: Sequence[Curve], log: bool | None) -> tuple[float, float, bool]:
    """The ends of the axes, and whether logarithms are shown; from 0 to 1 if bins have equal widths."""
    if not log and any(np.ptp(np.diff(curve.edges)) < SAME_WIDTH for curve in curves):
        return 0.0, 1.0, False
    shown = np.concatenate([drawing.floats((*curve.confidence, *curve.accuracy)) for curve in curves])
    low, high = float(np.nanmin(shown[shown > 0], initial=1.0)), float(np.nanmax(shown, initial=0.0))
    rare = high <= MOST_RARE
    reach = max(
        end
        for curve in curves
        for end, *held in zip(
            curve.histogram_edges[1:], curve.histogram_correct, curve.histogram_incorrect, strict=True
        )
        if any(held)
    )
    if log or (rare and log is None):
        return low / 1.5, min(1.0, max(1.5 * high, reach)), True
    return (0.0, max(1.1 * high, reach), False) if rare else (max(0.0, 1.1 * low - 0.1), 1.0, False)


def _tick_along(ax: Axes, which: Literal["x", "y"], curves: Sequence[Curve], log: bool | None = None) -> None:
    """Set the ends of an axis, and six ticks from 0 to 1 or a few round numbers."""
    low, high, log = _shown(curves, log)
    axis = ax.xaxis if which == "x" else ax.yaxis
    ax.set(**{f"{which}lim": (low, high)})
    axis.set_major_formatter(_percent)
    if (low, high) == (0.0, 1.0):
        axis.set_ticks(np.linspace(0, 1, 6))
        return
    if not log:
        axis.set_ticks(MaxNLocator(5).tick_values(low, high))
        ax.set(**{f"{which}lim": (low, high)})
        return
    ax.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if high / low < 10 else (1, 3) if high / low < 100 else (1,)
    ticks = [digit * 10.0**power for power in powers for digit in digits]
    axis.set_major_formatter(_percent)
    axis.set_label_text(f"{axis.get_label_text()}, log scale")
    axis.set_minor_formatter(NullFormatter())
    axis.set_ticks([tick for tick in ticks if low <= tick <= high])


def _percent(share: float, _place: object = None) -> str:
    return f"{100 * share:.4g}%"


def _known(curve: Curve) -> Bool[ndarray, " B"]:
    """Mask of the bins whose share is known well enough to be joined, or has no interval."""
    width = drawing.floats(curve.high) - drawing.floats(curve.low)
    return np.isnan(width) | (width <= WIDEST_JOINED)


def _areas(counts: Sequence[int]) -> Float[ndarray, " B"]:
    shares = np.array(counts, dtype=np.float64) / max(sum(counts), 1)
    return 14 + 76 * shares


def _band(ax: Axes, curve: Curve, colour: str, *, alpha: float) -> None:
    low, high = drawing.floats(curve.expected_low), drawing.floats(curve.expected_high)
    ax.stairs(high, curve.edges, baseline=low, fill=True, color=colour, alpha=alpha, linewidth=0)


def _points(
    ax: Axes,
    curve: Curve,
    chosen: Bool[ndarray, " B"],
    area: Float[ndarray, " B"],
    colour: Any,
    shape: str,
    *,
    hollow: bool = False,
) -> None:
    ax.scatter(
        drawing.floats(curve.confidence)[chosen],
        np.maximum(drawing.floats(curve.accuracy)[chosen], ax.get_ylim()[0]),
        s=area[chosen],
        facecolors="none" if hollow else colour,
        edgecolors=colour,
        marker=shape,
        linewidths=0.8 if hollow else 0,
        clip_on=False,
        zorder=3,
    )


def _intervals(
    ax: Axes, curve: Curve, chosen: Bool[ndarray, " B"], colour: Any, *, alpha: float = 1.0
) -> None:
    stated, low, high = map(drawing.floats, (curve.confidence, curve.low, curve.high))
    drawn = chosen & ~np.isnan(low) & ~np.isnan(high)
    ax.vlines(stated[drawn], low[drawn], high[drawn], color=colour, linewidth=1.2, alpha=alpha)


def _tick(size: int) -> str:
    """A count that is short enough for a tick: 999, but 1.2k, 12k and 1.2M."""
    if size < 1000:
        return str(size)
    if size >= 999_500:
        return f"{size / 1e6:.2g}M"
    return f"{size / 1e3:.2g}k" if size < 99_500 else f"{size / 1e3:.0f}k"
