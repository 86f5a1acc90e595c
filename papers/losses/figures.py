"""Two pictures of the loss study: calibration before and after temperature scaling, and the weight norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibrant._math.means import mean_of
from calibrant.reports.figures import BLUE, VERMILLION, series
from calibrant.reports.figures.drawing import drawing_style
from papers.arms import ArmRuns
from papers.losses.numbers import arms_of

_DRAWN_NORMS = (
    "cross-entropy-no-decay",
    "cross-entropy",
    "focal-1",
    "focal-2",
    "focal-3",
    "focal-calibration",
)


def draw_figures(numbers: Mapping[str, Any]) -> list[Figure]:
    """Calibration errors, then weight norms."""
    arms = arms_of(numbers)
    with drawing_style():
        errors = Figure(figsize=(6.4, 0.6 + 0.28 * len(arms)), layout="constrained")
        calibration_errors(arms, ax=errors.add_subplot())
        norms = Figure(figsize=(7.6, 3.4), layout="constrained")
        weight_norms(arms, ax=norms.add_subplot())
    return [errors, norms]


def calibration_errors(arms: Sequence[ArmRuns], *, ax: Axes) -> Axes:
    """A row per arm: the mean over the seeds, and each seed."""
    for row, found in enumerate(reversed(arms)):
        for stage, colour, mark in (("before", VERMILLION, "o"), ("temperature", BLUE, "s")):
            each = [100 * run["stages"][stage]["ece"] for run in found.runs.values()]
            ax.plot(each, [row] * len(each), mark, color=colour, markersize=3, alpha=0.6, linestyle="none")
            ax.plot([mean_of(each).value], [row], mark, color=colour, markersize=7, fillstyle="none")
    ax.set_yticks(range(len(arms)), [found.title for found in reversed(arms)])
    ax.set_xlim(left=0)
    ax.set_xlabel("ECE (%)")
    ax.grid(axis="x", alpha=0.3)
    return ax


def weight_norms(arms: Sequence[ArmRuns], *, ax: Axes) -> Axes:
    """A line per arm over the epochs."""
    drawn = [found for found in arms if found.key in _DRAWN_NORMS]
    for place, found in enumerate(drawn):
        colour, _, _ = series(place)
        epochs = sorted({int(epoch) for run in found.runs.values() for epoch in run["norms"]})
        means = [
            mean_of([run["norms"][str(epoch)] for run in found.runs.values() if str(epoch) in run["norms"]])
            for epoch in epochs
        ]
        ax.plot(
            epochs,
            [mean.value for mean in means],
            color=colour,
            linestyle=("-", "--", ":")[place % 3],
            label=found.title,
        )
    ax.set_xlabel("epoch")
    ax.set_ylabel("norm of the last layer's weights")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if drawn:
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return ax
