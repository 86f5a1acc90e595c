"""The picture of the generalisation-gap study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibrant.experiments.studies.generalisation_gap import BY_CAPACITY, BY_SAMPLES, GAMMAS, Cell
from calibrant.experiments.studies.generalisation_gap_numbers import each_of, name_of
from calibrant.experiments.studies.loss_study_numbers import mean_of
from calibrant.experiments.studies.study_records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_figure(records: Sequence[Record]) -> Figure:
    """Three panels: over-confidence by sample size, by capacity, and the map's effect."""
    from matplotlib.figure import Figure as NewFigure

    from calibrant.reports.figures.drawing import drawing_style

    with drawing_style():
        figure = NewFigure(figsize=(9.6, 3.4), layout="constrained")
        first, second, third = figure.subplots(1, 3, sharey=True)
        _curves(records, BY_SAMPLES, first, lambda cell: cell.num_samples, "training samples (d = 40)")
        first.set_xscale("log")
        first.set_xticks([cell.num_samples for cell in BY_SAMPLES], [str(c.num_samples) for c in BY_SAMPLES])
        first.minorticks_off()
        _curves(records, BY_CAPACITY, second, lambda cell: cell.num_features, "features (n = 800)")
        _curves(
            records,
            BY_CAPACITY,
            third,
            lambda cell: cell.num_features,
            "features (n = 800), focal map applied",
            name="mapped_test_overconfidence",
        )
        first.set_ylabel("over-confidence on new samples (points)")
        first.legend(fontsize="x-small", loc="upper right", edgecolor="none", framealpha=1)
    return figure


def _curves(
    records: Sequence[Record],
    cells: Sequence[Cell],
    ax: Axes,
    place: Callable[[Cell], float],
    title: str,
    *,
    name: str = "test_overconfidence",
) -> None:
    from calibrant.reports.figures import GREY, series

    ax.axhline(0, color=GREY, linewidth=0.8)
    for number, gamma in enumerate(GAMMAS):
        colour, mark, _ = series(number)
        drawn = [cell for cell in cells if each_of(records, cell, gamma, name)]
        means = [mean_of(each_of(records, cell, gamma, name)) for cell in drawn]
        ax.errorbar(
            [place(cell) for cell in drawn],
            [100 * mean.value for mean in means],
            yerr=np.array([100 * (mean.half_width or 0.0) for mean in means]),
            color=colour,
            marker=mark,
            markersize=4,
            linewidth=1,
            capsize=2,
            label=name_of(gamma),
        )
    ax.set_xlabel(title)
    ax.grid(alpha=0.3)
