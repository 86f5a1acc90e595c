"""The figure of the generalisation-gap study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibrant.experiments.pages import loss_name
from calibrant.experiments.studies.generalisation_gap.numbers import arm_of, cells_among
from calibrant.experiments.studies.generalisation_gap.settings import BY_CAPACITY, BY_SAMPLES, GAMMAS, Cell
from calibrant.reports.figures import GREY, series
from calibrant.reports.figures.drawing import drawing_style


def draw_figure(numbers: Mapping[str, Any]) -> Figure:
    """Three panels: over-confidence by sample size, by capacity, and the map's effect."""
    with drawing_style():
        figure = Figure(figsize=(9.6, 3.4), layout="constrained")
        first, second, third = figure.subplots(1, 3, sharey=True)
        _curves(numbers, BY_SAMPLES, first, "num_samples", "test_overconfidence")
        first.set_xlabel("training samples (d = 40)")
        first.set_xscale("log")
        first.set_xticks([cell.num_samples for cell in BY_SAMPLES], [str(c.num_samples) for c in BY_SAMPLES])
        first.minorticks_off()
        _curves(numbers, BY_CAPACITY, second, "num_features", "test_overconfidence")
        second.set_xlabel("features (n = 800)")
        _curves(numbers, BY_CAPACITY, third, "num_features", "mapped_test_overconfidence")
        third.set_xlabel("features (n = 800), focal map applied")
        first.set_ylabel("over-confidence on new samples (points)")
        first.legend(fontsize="x-small", loc="upper right", edgecolor="none", framealpha=1)
    return figure


def _curves(numbers: Mapping[str, Any], cells: Sequence[Cell], ax: Axes, along: str, name: str) -> None:
    ax.axhline(0, color=GREY, linewidth=0.8)
    for number, gamma in enumerate(GAMMAS):
        colour, mark, _ = series(number)
        drawn = [cell for cell in cells_among(numbers, cells) if arm_of(cell, gamma)[name]]
        means = [arm_of(cell, gamma)[name] for cell in drawn]
        ax.errorbar(
            [cell[along] for cell in drawn],
            [100 * mean["mean"] for mean in means],
            yerr=np.array([100 * (mean["half_width"] or 0.0) for mean in means]),
            color=colour,
            marker=mark,
            markersize=4,
            linewidth=1,
            capsize=2,
            label=loss_name(gamma),
        )
    ax.grid(alpha=0.3)
