"""Calibration errors side by side: of arms or models, of classes, and of groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from calibrant.evaluation.resampling.intervals import beyond_chance
from calibrant.evaluation.result import Arm, ClassRow, ComparedModel, Estimate, GroupRow, NullError
from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION, floats, new_axes
from calibrant.reports.words import number, shortened


def error_intervals(
    parts: Sequence[Arm | ComparedModel], *, metric: str = "ece", ax: Axes | None = None
) -> Axes:
    """A calibration error of several arms or models with its interval and the noise floor.

    The grey bar covers the error of a perfectly calibrated model of this size in most draws; its tick is the
    mean.

    Args:
        parts: ``evaluation.arms`` or ``comparison.models``.
        metric: Key in their ``metrics``.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into, the first part uppermost.

    Example:
        >>> arm = Arm(name="uncalibrated", title="Uncalibrated", parameters={}, fit=None, change={}, null=(),
        ...     metrics={"ece": Estimate(value=0.05, low=0.04, high=0.06)}, curves=(), classes=())
        >>> [label.get_text() for label in error_intervals([arm]).get_yticklabels()]
        ['Uncalibrated']
    """
    ax = new_axes(ax, width=5.6, height=0.6 + 0.4 * len(parts))
    for row, part in enumerate(parts):
        null = next((entry for entry in part.null if entry.metric == metric), None)
        _error_row(ax, row, part.metrics.get(metric), null)
    _named_rows(ax, [part.title for part in parts])
    ax.set_xlabel("calibration error")
    return ax


def class_errors(rows: Sequence[ClassRow], *, most: int = 20, ax: Axes | None = None) -> Axes:
    """The classes with the largest calibration errors, as bars.

    Args:
        rows: ``arm.classes``.
        most: Number of classes to show.
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
    ax = new_axes(ax, width=5.6, height=0.6 + 0.26 * len(worst))
    bars = ax.barh(range(len(worst)), [row.ece for row in worst], height=0.7, color=BLUE)
    for text in ax.bar_label(bars, [number(row.ece) for row in worst], padding=3):
        text.set_parse_math(False)
    _named_rows(ax, [row.name for row in worst])
    shown = "" if len(worst) == len(rows) else f", the {len(worst)} largest of {len(rows)}"
    ax.set_xlabel(f"calibration error{shown}")
    ax.set_xlim(0, 1.15 * max((row.ece for row in worst), default=0) or 1)  # room for the numbers
    return ax


def class_shifts(
    before: Sequence[ClassRow], after: Sequence[ClassRow] = (), *, ax: Axes | None = None
) -> Axes:
    """Average probability minus actual rate of each class, before and after a repair, in points.

    Marks are hollow before and filled after. The grey bands are the noise floors before and, darker, after: a
    calibrated model keeps every class within them. Marks outside it are
    orange if too high, blue if too low.

    Args:
        before: Rows of ``arm.classes``, drawn from the top down.
        after: The same classes after the repair.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into.

    Example:
        >>> row = ClassRow(name="cat", count=9, mean_probability=0.2, prevalence=0.1, ece=0.1, auroc=None,
        ...     accuracy=None, adjusted_p=0.01, noise_floor=0.03)
        >>> class_shifts([row]).get_xlabel()
        'predicted minus actual rate, points'
    """
    ax = new_axes(ax, width=4.2, height=0.7 + 0.22 * len(before))
    ink = ax.xaxis.label.get_color()
    ax.axvline(0, color=ink, linewidth=0.8, zorder=0)
    shifts = [100 * floats(row.mean_probability - row.prevalence for row in rows) for rows in (before, after)]
    floors = [100 * floats(row.noise_floor for row in rows) for rows in (before, after)]
    if after:
        ax.hlines(range(len(after)), shifts[0], shifts[1], color=GREY, linewidth=1)
    for values, floor, filled in zip(shifts, floors, ("none", "full"), strict=True):
        places = np.arange(len(values))
        ax.barh(places, 2 * floor, left=-floor, height=0.8, color=GREY, alpha=0.25, linewidth=0)
        marks = ((np.abs(values) <= floor, ink), (values > floor, VERMILLION), (values < -floor, BLUE))
        for chosen, colour in marks:
            ax.plot(values[chosen], places[chosen], "o", color=colour, markersize=5.5, fillstyle=filled)
    ends = np.concatenate([*shifts, *floors, *(-floor for floor in floors)])
    return _in_points(ax, [row.name for row in before], ends)


def group_gaps(
    before: Sequence[GroupRow],
    after: Sequence[GroupRow] = (),
    *,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Average prediction minus actual rate of each group, hollow before and filled after a repair.

    Marks are in colour if the interval excludes zero and the group's calibration error is more than
    noise, after adjustment for all groups.
    """
    ax = new_axes(ax, width=4.2, height=0.7 + 0.3 * len(before))
    ax.axvline(0, color=ax.xaxis.label.get_color(), linewidth=0.8, zorder=0)
    ends: list[float] = []
    for rows, filled, shift in ((before, "none", -0.14 if after else 0.0), (after, "full", 0.14)):
        for place, row in enumerate(rows):
            low, value, high = 100 * floats((row.gap.low, row.gap.value, row.gap.high))
            real = beyond_chance(row.adjusted_p, level) and low * high > 0
            colour = VERMILLION if real else ax.xaxis.label.get_color()
            ax.hlines(place + shift, low, high, color=colour, linewidth=1.2)
            ax.plot([value], [place + shift], "D" if real else "o", color=colour, ms=5, fillstyle=filled)
            ends += [low, value, high]
    return _in_points(ax, [f"{shortened(row.name)} ({row.count:,})" for row in before], ends)


def _in_points(ax: Axes, names: Sequence[str], ends: ArrayLike) -> Axes:
    """Name the rows and the axis of gaps, and reach beyond zero and the ends of all marks."""
    _named_rows(ax, names)
    low, high = np.nanmin(ends, initial=0.0), np.nanmax(ends, initial=0.0)
    ax.set_xlim(low - 0.06 * (high - low), high + 0.06 * (high - low))
    ax.set_xlabel("predicted minus actual rate, points")
    return ax


def _error_row(ax: Axes, row: int, estimate: Estimate | None, null: NullError | None) -> None:
    if null is not None:
        ax.barh(row, null.upper, height=0.62, color=GREY, alpha=0.3, linewidth=0)
        ax.vlines(null.mean, row - 0.31, row + 0.31, color=GREY, linewidth=1.5)
    if estimate is None or estimate.value is None:
        ax.text(0, row, " not known", verticalalignment="center")
        return
    clear = null is not None and estimate.value > null.upper
    colour, shape = (VERMILLION, "D") if clear else (ax.xaxis.label.get_color(), "o")
    if estimate.low is not None and estimate.high is not None:
        ax.hlines(row, estimate.low, estimate.high, color=colour, linewidth=2)
    ax.plot([estimate.value], [row], color=colour, marker=shape, markersize=6, linestyle="none")


def _named_rows(ax: Axes, names: Sequence[str]) -> None:
    """Set literal row names from the top down, and errors from zero on."""
    ax.set_yticks(range(len(names)), [shortened(name) for name in names])
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
