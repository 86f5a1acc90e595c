"""Quantities of a sweep against one of its settings."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from calibrant.reports.figures import drawing

_SPAN = 20.0
"""Ratio of the largest to the smallest position from which the scale is logarithmic."""
_MOST_TICKS = 8
_WIDEST = 34
"""Characters of a line beside an axis."""
_MEANS = "means"
_LONG = 9
"""Characters of words below the axis from which they are turned."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """The runs at one position: their values, mean, and half the width of its interval if it has one."""

    x: float | str
    values: tuple[float, ...]
    mean: float
    half: float | None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points under one name, which is empty where there is but one curve."""

    name: str
    points: Sequence[Point]


def sweep_figure(panels: Mapping[str, Sequence[Curve]], *, across: str, by: str = "") -> Figure:
    """A panel for each quantity: small marks are runs, large ones means, bars 95% intervals of the means.

    Args:
        panels: Curves by what is drawn upwards.
        across: What the positions are of.
        by: What the names of the curves are of.

    Example:
        >>> point = Point(x=1.0, values=(0.1, 0.3), mean=0.2, half=None)
        >>> figure = sweep_figure({"ECE": [Curve(name="", points=[point])]}, across="gamma")
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('gamma', 'ECE')
    """
    names = [curve.name for curve in next(iter(panels.values()))]
    with drawing.drawing_style():
        beside = any(names) and len(names) > 1
        figure = Figure(
            figsize=(3.9 * len(panels) + (0.4 + 0.075 * max(map(len, [by, *names])) if beside else 0), 3.3),
            layout="constrained",
        )
        for place, (title, curves) in enumerate(panels.items()):
            ax = figure.add_subplot(1, len(panels), place + 1)
            _panel(ax, curves)
            ax.set_xlabel(across)
            ax.set_ylabel("\n".join(textwrap.wrap(title, _WIDEST)))
            drawing.open_frame(ax)
        if beside:
            handles = [line for line in figure.axes[0].get_lines() if line.get_gid() == _MEANS]
            legend = figure.legend(
                handles, ["-"] * len(names), loc="outside right center", frameon=False, title=by or None
            )
            for text, name in zip(legend.get_texts(), names, strict=True):
                text.set_parse_math(False)
                text.set_text(name)
    return figure


def _panel(ax: Axes, curves: Sequence[Curve]) -> None:
    xs = list(dict.fromkeys(point.x for curve in curves for point in curve.points))
    words = any(isinstance(x, str) for x in xs)
    places = _words_below(ax, [str(x) for x in xs]) if words else {str(x): float(x) for x in xs}
    if not words:
        _numbers_below(ax, sorted(places.values()))
    logarithmic = ax.get_xscale() == "log"
    step = _step(sorted(places.values()), logarithmic=logarithmic)
    for number, curve in enumerate(curves):
        colour, shape, dashes = drawing.series(number)
        points = sorted(curve.points, key=lambda point: places[str(point.x)])
        shift = (number - (len(curves) - 1) / 2) * min(0.12, 0.5 / len(curves))
        at = [places[str(point.x)] for point in points]
        at = [x * step**shift if logarithmic else x + step * shift for x in at]
        for x, point in zip(at, points, strict=True):
            ax.plot([x] * len(point.values), point.values, shape, color=colour, markersize=2.5, alpha=0.45)
        means = [point.mean for point in points]
        halves = drawing.floats(point.half for point in points)
        ax.errorbar(at, means, yerr=halves, fmt="none", ecolor=colour, elinewidth=1, capsize=2)
        (line,) = ax.plot(at, means, color=colour, marker=shape, markersize=5.5, linewidth=1.2)
        line.set(markerfacecolor="none", linestyle="none" if words else dashes, gid=_MEANS)
    ax.grid(axis="y", alpha=0.3)


def _words_below(ax: Axes, words: Sequence[str]) -> dict[str, float]:
    """A tick for each word; long ones are turned."""
    ax.set_xticks(range(len(words)), words)
    if max(map(len, words)) > _LONG:
        ax.tick_params(axis="x", rotation=30)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
    return {word: float(place) for place, word in enumerate(words)}


def _numbers_below(ax: Axes, numbers: Sequence[float]) -> None:
    """A tick for each number, on a logarithmic scale where they span much."""
    if numbers[0] > 0 and numbers[-1] / numbers[0] >= _SPAN:
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_minor_formatter(NullFormatter())
    if len(numbers) <= _MOST_TICKS:
        ax.set_xticks(numbers, [f"{x:g}" for x in numbers])


def _step(places: Sequence[float], *, logarithmic: bool) -> float:
    """The smallest distance of two places; a ratio on a logarithmic scale."""
    steps = [after / before if logarithmic else after - before for before, after in pairwise(places)]
    return min(steps, default=1.0)
