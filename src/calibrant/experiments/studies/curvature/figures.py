"""The pictures of the curvature study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calibrant.experiments.pages import loss_name
from calibrant.experiments.studies.curvature.numbers import Run, arms_of, runs_of
from calibrant.experiments.studies.curvature.settings import GAMMAS, Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOSSES = (("own", "of the loss trained"), ("cross_entropy", "of cross-entropy"))


def draw_path(every: Sequence[Run], settings: Sequence[Setting]) -> Figure:
    """Trace on training samples at the checkpoints: a column for each setting, a row for each loss."""

    def draw(axes: Any) -> None:
        for column, setting in enumerate(settings):
            for row, (loss, whose) in enumerate(_LOSSES):
                ax = axes[row][column]
                _path(every, setting, loss, ax)
                ax.set_title(setting.title if row == 0 else "", fontsize="medium")
                ax.set_xlabel("epoch" if row == 1 else "")
                ax.set_ylabel(f"trace {whose}" if column == 0 else "")
        axes[0][0].legend(frameon=False, fontsize="x-small")

    return _figure(len(settings), draw)


def draw_scatter(every: Sequence[Run], settings: Sequence[Setting]) -> Figure:
    """Every run at the end: its trace on training samples against its calibration error on test samples."""

    def draw(axes: Any) -> None:
        for column, setting in enumerate(settings):
            for row, (loss, whose) in enumerate(_LOSSES):
                ax = axes[row][column]
                _scatter(every, setting, loss, ax)
                ax.set_title(setting.title if row == 0 else "", fontsize="medium")
                ax.set_xlabel(f"trace {whose}")
                ax.set_ylabel("test ECE (%)" if column == 0 else "")
        axes[0][0].legend(frameon=False, fontsize="x-small")

    return _figure(len(settings), draw)


def _figure(columns: int, draw: Callable[[Any], None]) -> Figure:
    from matplotlib.figure import Figure as NewFigure

    from calibrant.reports.svg import drawing_style

    with drawing_style():
        figure = NewFigure(figsize=(2.9 * columns, 5.2), layout="constrained")
        draw(figure.subplots(2, columns, squeeze=False))
    return figure


def _path(every: Sequence[Run], setting: Setting, loss: str, ax: Axes) -> None:
    """Median over the seeds, and each seed as a faint line."""
    from calibrant.reports.figures import series

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
    from calibrant.reports.figures import GREY, series

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
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = ax.xaxis if name == "x" else ax.yaxis
    ax.set(**{f"{name}scale": "log"})
    low, high = ax.get_xlim() if name == "x" else ax.get_ylim()
    wide = high > 8 * low
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if wide else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
