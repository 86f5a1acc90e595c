"""The figure of the generalisation-gap study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibrant.reports.figures import GREY, series
from calibrant.reports.figures.drawing import drawing_style
from papers.generalisation_gap.limit import calibrating_rows
from papers.generalisation_gap.numbers import arm_of, cells_among, load_of
from papers.generalisation_gap.settings import BY_CAPACITY, BY_SAMPLES, Cell
from papers.pages import loss_name


def draw_figures(numbers: Mapping[str, Any]) -> list[Figure]:
    """Over-confidence by sample size, by capacity and after the map; and the exponent that calibrates."""
    with drawing_style():
        figure = Figure(figsize=(9.6, 7.0), layout="constrained")
        (first, second), (third, fourth) = figure.subplots(2, 2)
        for other in (second, third):
            other.sharey(first)
        _curves(numbers, BY_SAMPLES, first, "num_samples", "test_overconfidence")
        first.set_xlabel("training samples (d = 40)")
        first.set_xscale("log")
        first.set_xticks([cell.num_samples for cell in BY_SAMPLES], [str(c.num_samples) for c in BY_SAMPLES])
        first.minorticks_off()
        _curves(numbers, BY_CAPACITY, second, "num_features", "test_overconfidence")
        second.set_xlabel("features (n = 800)")
        _curves(numbers, BY_CAPACITY, third, "num_features", "mapped_test_overconfidence")
        third.set_xlabel("features (n = 800), focal map applied")
        for each in (first, third):
            each.set_ylabel("over-confidence on new samples (points)")
        _calibrating(numbers, fourth)
        first.legend(fontsize="x-small", loc="upper right", edgecolor="none", framealpha=1)
    return [figure]


def _curves(numbers: Mapping[str, Any], cells: Sequence[Cell], ax: Axes, along: str, name: str) -> None:
    """Means with their intervals; the limit as a line."""
    ax.axhline(0, color=GREY, linewidth=0.8)
    drawn = cells_among(numbers, cells)
    for number, arm in enumerate(numbers["limit"]["arms"]):
        gamma = arm["gamma"]
        colour, mark, _ = series(number)
        shown = [cell for cell in drawn if arm_of(cell, gamma)[name]]
        _dots(
            ax, [cell[along] for cell in shown], [arm_of(cell, gamma)[name] for cell in shown], colour, mark
        )
        ends = [load_of(cell) for cell in drawn]
        line = [
            (_at_load(drawn[0], along, load), 100 * each[name])
            for load, each in zip(numbers["limit"]["loads"], arm["each"], strict=True)
            if min(ends, default=0) * 0.999 <= load <= max(ends, default=0) * 1.001
        ]
        ax.plot(
            [place for place, _ in line],
            [height for _, height in line],
            color=colour,
            linewidth=1,
            marker="",
            label=loss_name(gamma),
        )
    ax.grid(alpha=0.3)


def _at_load(cell: Mapping[str, Any], along: str, load: float) -> float:
    """The samples, or features, that have a load where the other number is the cell's."""
    return cell["num_features"] / load if along == "num_samples" else cell["num_samples"] * load


def _dots(
    ax: Axes, places: Sequence[float], means: Sequence[Any], colour: str, mark: str, scale: float = 100
) -> None:
    ax.errorbar(
        places,
        [scale * mean["mean"] for mean in means],
        yerr=np.array([scale * (mean["half_width"] or 0.0) for mean in means]),
        color=colour,
        marker=mark,
        markersize=4,
        linestyle="none",
        elinewidth=1,
        capsize=2,
    )


def _calibrating(numbers: Mapping[str, Any], ax: Axes) -> None:
    """The exponent that needs no temperature, by load."""
    colour, mark, _ = series(0)
    limit = numbers["limit"]
    ax.plot(limit["loads"], [each["exponent"] for each in limit["calibrating"]], color=colour, linewidth=1)
    largest = {
        load_of(row["cell"]): row for row in calibrating_rows(numbers)
    }  # the last of a load has most samples
    rows = list(largest.values())
    found = [row["compared"].found for row in rows]
    means = [{"mean": each.value, "half_width": each.half_width} for each in found]
    _dots(ax, [load_of(row["cell"]) for row in rows], means, colour, mark, 1)
    ax.set_xlabel("load d / n")
    ax.set_ylabel("exponent that needs no temperature")
    ax.grid(alpha=0.3)
