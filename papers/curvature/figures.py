"""The pictures of the curvature study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from calibrant.reports.figures import GREY, series
from calibrant.reports.figures.drawing import drawing_style
from papers.curvature.numbers import Run, arms_of, runs_of, settings_from
from papers.curvature.settings import GAMMAS, Setting
from papers.pages import loss_name

Panel: TypeAlias = Callable[[Sequence[Run], Setting, str, Axes], None]
_LOSSES = (("own", "of the loss trained"), ("cross_entropy", "of cross-entropy"))


def draw_figures(numbers: Mapping[str, Any]) -> list[Figure]:
    """Traces along training, a column for each setting and a row for each loss; against ECE at the end."""
    every, settings = numbers["runs"], settings_from(numbers)
    return [
        _figure(every, settings, _path, across=("", "epoch"), up="trace {}"),
        _figure(every, settings, _scatter, across=("trace {}", "trace {}"), up="test ECE (%)"),
    ]


def _figure(
    every: Sequence[Run], settings: Sequence[Setting], draw: Panel, *, across: tuple[str, str], up: str
) -> Figure:
    """``across`` names the axes of the upper and the lower row, ``up`` those of the first column."""
    with drawing_style():
        figure = Figure(figsize=(2.9 * len(settings), 5.2), layout="constrained")
        axes: Any = figure.subplots(2, len(settings), squeeze=False)
        for column, setting in enumerate(settings):
            for row, (loss, whose) in enumerate(_LOSSES):
                ax = axes[row][column]
                draw(every, setting, loss, ax)
                ax.set_title(setting.title if row == 0 else "", fontsize="medium")
                ax.set_xlabel(across[row].format(whose))
                ax.set_ylabel(up.format(whose) if column == 0 else "")
        axes[0][0].legend(frameon=False, fontsize="x-small")
    return figure


def _path(every: Sequence[Run], setting: Setting, loss: str, ax: Axes) -> None:
    """Median over the seeds, and each seed as a faint line."""
    runs = runs_of(every, setting.key, "focal")
    for place, gamma in enumerate(GAMMAS):
        colour, shape, _ = series(place)
        of_gamma = [run for run in runs if run["gamma"] == gamma]
        if not of_gamma:
            continue
        epochs = [each["epoch"] for each in of_gamma[0]["path"]]
        traces = np.array([[each["train"][loss]["trace"] for each in run["path"]] for run in of_gamma])
        shown = np.where(traces > 0, traces, np.nan)
        for line in shown:
            ax.plot(epochs, line, color=colour, linewidth=0.5, alpha=0.3)
        middle = np.median(traces, axis=0)
        ax.plot(
            epochs,
            np.where(middle > 0, middle, np.nan),
            color=colour,
            marker=shape,
            markersize=3.5,
            linewidth=1.2,
            label=loss_name(gamma),
        )
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xticks(setting.checkpoints, [str(epoch) for epoch in setting.checkpoints])
    ax.minorticks_off()
    _logarithmic(ax, "y")
    ax.grid(alpha=0.3)


def _scatter(every: Sequence[Run], setting: Setting, loss: str, ax: Axes) -> None:
    def points(runs: Sequence[Run]) -> tuple[list[float], list[float]]:
        known = [run for run in runs if run["path"][-1]["train"][loss]["trace"] > 0]
        return (
            [run["path"][-1]["train"][loss]["trace"] for run in known],
            [100 * run["end"]["before.ece"] for run in known],
        )

    for place, gamma in enumerate(GAMMAS):
        colour, shape, _ = series(place)
        runs = [run for run in runs_of(every, setting.key, "focal") if run["gamma"] == gamma]
        ax.plot(*points(runs), shape, color=colour, markersize=4, label=loss_name(gamma))
    for family, shape, label in (("trace", "x", "trace penalised"), ("sam", "+", "SAM")):
        for number, runs in enumerate(arms_of(runs_of(every, setting.key, family)).values()):
            ax.plot(*points(runs), shape, color=GREY, markersize=5, label=label if number == 0 else None)
    _logarithmic(ax, "x")
    ax.grid(alpha=0.3)


def _logarithmic(ax: Axes, name: Literal["x", "y"]) -> None:
    """A logarithmic axis with plain numbers, for ranges of less than a power of ten too."""
    axis = ax.xaxis if name == "x" else ax.yaxis
    ax.set(**{f"{name}scale": "log"})
    low, high = ax.get_xlim() if name == "x" else ax.get_ylim()
    wide = high > 8 * low
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if wide else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
