"""The diagrams: each takes the data of an evaluation and an ``ax``, draws, and returns the ``Axes``.

Without ``ax`` a figure of its own is made, outside pyplot's registry; ``axes.figure.savefig(...)`` writes it.
Colours are chosen for colour-blind readers, and whatever a colour says a shape or a word says too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from calibrant._math.errors import InputError
from calibrant.evaluation.result import Arm, ClassRow, ComparedModel, Curve, Estimate, NullError
from calibrant.reports.words import count, number, shortened

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from numpy import ndarray

BLUE, VERMILLION, GREEN, PINK, OCHRE, SKY = "#0072b2", "#d55e00", "#009e73", "#b8609a", "#a87400", "#3d8fc4"
GREY = "#808080"  # bands and guides; readable on white and on black
SERIES = (BLUE, VERMILLION, GREEN, PINK, OCHRE, SKY)
Dashes = Literal["-", "--", ":"]
DASHES: tuple[Dashes, ...] = ("-", "--", ":")
SHAPES = ("o", "s", "D", "^", "v", "P", "X")
ABOVE, BELOW, WITHIN = "above it: not sure enough", "below it: too sure", "within its band"


def reliability_diagram(curve: Curve, *, ax: Axes | None = None, legend: bool = True) -> Axes:
    """What was stated against what came true, one point per bin.

    A point's area grows with the bin's share of the samples, its bar is the interval of the share, and the
    grey band is where the points of a calibrated model would lie. A point outside the band has a colour and
    a shape of its own: a triangle pointing down lies below it (the model claims too much), one pointing up
    above it.

    Args:
        curve: The bins; empty ones are left out.
        ax: Where to draw; a new figure if ``None``.
        legend: Explain the marks inside the diagram.

    Returns:
        The axes drawn into, both running from 0 to 1.

    Example:
        >>> curve = Curve(
        ...     name="top label", edges=(0, 0.5, 1), counts=(4, 6), confidence=(0.4, 0.9),
        ...     accuracy=(0.5, 0.5), low=(0.1, 0.2), high=(0.9, 0.8),
        ...     expected_low=(0, 0.7), expected_high=(0.8, 1),
        ...     histogram_edges=(0, 0.5, 1), histogram_correct=(2, 3), histogram_incorrect=(2, 3))
        >>> reliability_diagram(curve).get_xlabel()
        'confidence'
    """
    ax = _axes(ax, width=4.2, height=4.2)
    ink = ax.xaxis.label.get_color()
    _unit_square(ax, curve)
    stated, found = _floats(curve.confidence), _floats(curve.accuracy)
    low, high = _floats(curve.expected_low), _floats(curve.expected_high)
    ax.stairs(high, curve.edges, baseline=low, fill=True, color=GREY, alpha=0.3, linewidth=0)
    ax.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=1)

    entries: list[tuple[str, Artist]] = [
        ("calibrated", Line2D([], [], color=GREY, linestyle=(0, (4, 3)), linewidth=1)),
        ("its band: chance alone", Patch(color=GREY, alpha=0.3, linewidth=0)),
    ]
    area = _areas(curve.counts)
    for label, chosen, colour, shape in (
        (WITHIN, ~((found < low) | (found > high)), ink, "o"),
        (BELOW, found < low, VERMILLION, "v"),
        (ABOVE, found > high, BLUE, "^"),
    ):
        chosen &= ~np.isnan(found)
        if not chosen.any():
            continue
        _intervals(ax, curve, chosen, colour)
        ax.scatter(
            stated[chosen],
            found[chosen],
            s=area[chosen],
            color=colour,
            marker=shape,
            linewidths=0,
            clip_on=False,
            zorder=3,
        )
        entries.append((label, Line2D([], [], color=colour, marker=shape, linestyle="none", markersize=6)))
    if legend:
        _legend(ax, entries)
    return ax


def reliability_comparison(
    curves: Mapping[str, Curve], *, ax: Axes | None = None, legend: bool = True
) -> Axes:
    """Several reliability diagrams in one picture, each with a colour, a shape and a line of its own.

    A point's area grows with the bin's share of the samples, its bar is the interval of the share.

    Args:
        curves: What each curve shall be called, and the curve.
        ax: Where to draw; a new figure if ``None``.
        legend: Name the curves inside the diagram.

    Returns:
        The axes drawn into, both running from 0 to 1.

    Raises:
        InputError: If there is no curve.

    Example:
        >>> curve = Curve(
        ...     name="top label", edges=(0, 0.5, 1), counts=(4, 6), confidence=(0.4, 0.9),
        ...     accuracy=(0.5, 0.5), low=(0.1, 0.2), high=(0.9, 0.8),
        ...     expected_low=(0, 0.7), expected_high=(0.8, 1),
        ...     histogram_edges=(0, 0.5, 1), histogram_correct=(2, 3), histogram_incorrect=(2, 3))
        >>> ax = reliability_comparison({"network A": curve, "network B": curve})
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['calibrated', 'network A', 'network B']
    """
    if not curves:
        msg = "`curves` must name one curve or more; got none."
        raise InputError(msg)
    ax = _axes(ax, width=4.2, height=4.2)
    _unit_square(ax, next(iter(curves.values())))
    (calibrated,) = ax.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=1)
    entries: list[tuple[str, Artist]] = [("calibrated", calibrated)]
    for position, (name, curve) in enumerate(curves.items()):
        colour, shape, dashes = series(position)
        stated, found = _floats(curve.confidence), _floats(curve.accuracy)
        _intervals(ax, curve, ~np.isnan(found), colour, alpha=0.5)
        ax.plot(stated, found, color=colour, linewidth=1, linestyle=dashes, alpha=0.6)
        area = _areas(curve.counts) / 3
        ax.scatter(stated, found, s=area, color=colour, marker=shape, linewidths=0, clip_on=False, zorder=3)
        line = Line2D([], [], color=colour, linewidth=1, linestyle=dashes, marker=shape, markersize=4)
        entries.append((name, line))
    if legend:
        _legend(ax, entries)
    return ax


def confidence_histogram(curve: Curve, *, ax: Axes | None = None) -> Axes:
    """How sure the model was where it was right (upwards) and where it was wrong (downwards), in samples.

    Wrong answers are often few, so each half has a scale of its own, up to its highest bar, as its tick says.

    Args:
        curve: Whose histogram to draw.
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
    ax = _axes(ax, width=4.2, height=2.2)
    right, wrong = np.array(curve.histogram_correct), np.array(curve.histogram_incorrect)
    top, bottom = max(int(right.max()), 1), max(int(wrong.max()), 1)
    ax.stairs(right, curve.histogram_edges, fill=True, color=GREEN, linewidth=0)
    ax.stairs(-wrong, curve.histogram_edges, fill=True, color=PINK, linewidth=0)
    ax.axhline(0, color=ax.xaxis.label.get_color(), linewidth=0.8)

    def shown(counts: Float[ndarray, " K"]) -> Float[ndarray, " K"]:
        return np.where(counts > 0, counts / top, counts / bottom)

    def counted(heights: Float[ndarray, " K"]) -> Float[ndarray, " K"]:
        return np.where(heights > 0, heights * top, heights * bottom)

    ax.set_yscale("function", functions=(shown, counted))
    ax.set_ylim(-1.45 * bottom, 1.45 * top)  # room for words beyond the bars
    ax.set_yticks([-bottom, 0, top], [_tick(bottom), "0", _tick(top)], minor=False)
    ax.set_yticks([], minor=True)
    ax.set_xlim(0, 1)
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.set_xlabel(_stated(curve))
    ax.set_ylabel("samples")
    ax.spines[["top", "right"]].set_visible(False)
    up, down = ("right", "wrong") if _is_top_label(curve) else ("positive", "negative")
    side, where = ("left", 0.02) if _emptier_left(right, wrong) else ("right", 0.98)
    for label, height, total in ((up, 0.99, right.sum()), (down, 0.01, wrong.sum())):
        ax.text(
            where,
            height,
            f"{count(int(total))} {label}",
            transform=ax.transAxes,
            horizontalalignment=side,
            verticalalignment="top" if height > 0.5 else "bottom",
        )
    return ax


def error_intervals(
    parts: Sequence[Arm | ComparedModel], *, metric: str = "ece", ax: Axes | None = None
) -> Axes:
    """A calibration error of several arms or models with its interval, and what chance alone would give.

    The grey bar is where the error of a perfectly calibrated model of this size stays in most draws, its tick
    is that model's mean.

    Args:
        parts: ``evaluation.arms`` or ``comparison.models``.
        metric: Which entry of their ``metrics``.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into, the first part uppermost.

    Example:
        >>> arm = Arm(name="uncalibrated", title="Uncalibrated", parameters={}, fit=None, change={}, null=(),
        ...     metrics={"ece": Estimate(value=0.05, low=0.04, high=0.06)}, curves=(), classes=())
        >>> [label.get_text() for label in error_intervals([arm]).get_yticklabels()]
        ['Uncalibrated']
    """
    ax = _axes(ax, width=5.6, height=0.6 + 0.4 * len(parts))
    for row, part in enumerate(parts):
        null = next((entry for entry in part.null if entry.metric == metric), None)
        _error_row(ax, row, part.metrics.get(metric), null)
    _named_rows(ax, [part.title if isinstance(part, Arm) else part.name for part in parts])
    ax.set_xlabel("calibration error")
    return ax


def class_errors(rows: Sequence[ClassRow], *, most: int = 20, ax: Axes | None = None) -> Axes:
    """The classes with the largest calibration errors, as bars.

    Args:
        rows: ``arm.classes``.
        most: How many to show.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into, the largest error uppermost.

    Example:
        >>> rows = [ClassRow(name=name, count=9, mean_probability=0.2, prevalence=0.1, ece=ece, auroc=None,
        ...     accuracy=None) for name, ece in (("cat", 0.02), ("dog", 0.1))]
        >>> [label.get_text() for label in class_errors(rows).get_yticklabels()]
        ['dog', 'cat']
    """
    worst = sorted(rows, key=lambda row: -row.ece)[:most]
    ax = _axes(ax, width=5.6, height=0.6 + 0.26 * len(worst))
    bars = ax.barh(range(len(worst)), [row.ece for row in worst], height=0.7, color=BLUE)
    for text in ax.bar_label(bars, [number(row.ece) for row in worst], padding=3):
        text.set_parse_math(False)
    _named_rows(ax, [row.name for row in worst])
    ax.set_xlabel("calibration error")
    ax.set_xlim(0, 1.15 * max((row.ece for row in worst), default=0) or 1)  # room for the numbers
    return ax


def series(position: int) -> tuple[str, str, Dashes]:
    """Colour, shape and dashes of the curve at ``position``; no two of the first 42 are alike."""
    return SERIES[position % len(SERIES)], SHAPES[position % len(SHAPES)], DASHES[position // 6 % 3]


def place(curve: Curve) -> tuple[int, int, int]:
    """How many bins lie above, below and within the band of a calibrated model."""
    found = _floats(curve.accuracy)
    above = int((found > _floats(curve.expected_high)).sum())
    below = int((found < _floats(curve.expected_low)).sum())
    return above, below, int((~np.isnan(found)).sum()) - above - below


def _axes(ax: Axes | None, *, width: float, height: float) -> Axes:
    """The axes given, or new ones in a figure that nothing else knows of."""
    return Figure(figsize=(width, height), layout="constrained").add_subplot() if ax is None else ax


def _floats(values: Iterable[float | None]) -> Float[ndarray, " B"]:
    """Missing values as NaN, which matplotlib leaves out."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _is_top_label(curve: Curve) -> bool:
    return curve.name == "top label"


def _stated(curve: Curve) -> str:
    return "confidence" if _is_top_label(curve) else "stated probability"


def _unit_square(ax: Axes, curve: Curve) -> None:
    """Both axes from 0 to 1 with the same ticks, and what they mean."""
    ticks = np.linspace(0, 1, 6)
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks, aspect="equal")
    ax.set_xlabel(_stated(curve))
    ax.set_ylabel("share that was right" if _is_top_label(curve) else "share that was positive")
    ax.spines[["top", "right"]].set_visible(False)


def _areas(counts: Sequence[int]) -> Float[ndarray, " B"]:
    """Marker areas in square points, between 14 and 90: the fullest bin has the largest."""
    shares = np.array(counts, dtype=np.float64) / max(*counts, 1)
    return 14 + 76 * shares


def _intervals(
    ax: Axes, curve: Curve, chosen: Bool[ndarray, " B"], colour: object, *, alpha: float = 1.0
) -> None:
    """A vertical bar from low to high in every chosen bin that has an interval."""
    low, high = _floats(curve.low), _floats(curve.high)
    drawn = chosen & ~np.isnan(low) & ~np.isnan(high)
    ax.vlines(
        _floats(curve.confidence)[drawn], low[drawn], high[drawn], color=colour, linewidth=1.2, alpha=alpha
    )


def _legend(ax: Axes, entries: Sequence[tuple[str, Artist]]) -> None:
    """A legend whose names are shown as they are: no mathematics, and none left out for its underscore."""
    box = ax.legend(
        [artist for _, artist in entries], ["-"] * len(entries), frameon=False, fontsize="small", loc="best"
    )
    for text, (name, _) in zip(box.get_texts(), entries, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def _tick(size: int) -> str:
    """A count that is short enough for a tick: 1,234, but 12k and 1.23M."""
    return count(size) if size < 9_950 else f"{size / 1e3:.0f}k" if size < 999_500 else f"{size / 1e6:.3g}M"


def _emptier_left(right: ndarray, wrong: ndarray) -> bool:
    """Whether the left half of the histogram has the lower bars, so that words fit there."""
    half = len(right) // 2
    heights = np.maximum(right / max(right.max(), 1), wrong / max(wrong.max(), 1))
    return bool(heights[:half].max(initial=0) <= heights[half:].max(initial=0))


def _error_row(ax: Axes, row: int, estimate: Estimate | None, null: NullError | None) -> None:
    """One line of :func:`error_intervals`."""
    ink = ax.xaxis.label.get_color()
    if null is not None:
        ax.barh(row, null.upper, height=0.62, color=GREY, alpha=0.3, linewidth=0)
        ax.vlines(null.mean, row - 0.31, row + 0.31, color=GREY, linewidth=1.5)
    if estimate is None or estimate.value is None:
        ax.text(0, row, " not known", verticalalignment="center")
        return
    clear = null is not None and estimate.value > null.upper
    if estimate.low is not None and estimate.high is not None:
        ax.hlines(row, estimate.low, estimate.high, color=VERMILLION if clear else ink, linewidth=2)
    ax.plot(
        [estimate.value],
        [row],
        color=VERMILLION if clear else ink,
        marker="D" if clear else "o",
        markersize=6,
        linestyle="none",
    )


def _named_rows(ax: Axes, names: Sequence[str]) -> None:
    """Rows from the top down, their names as they are, and errors from zero on."""
    ax.set_yticks(range(len(names)), [shortened(name) for name in names])
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
