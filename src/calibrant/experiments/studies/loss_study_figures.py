"""Two pictures of the loss study: calibration before and after temperature scaling, and the weight norms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibrant._math.files import atomic_write
from calibrant.experiments.means import mean_of
from calibrant.experiments.studies.loss_study import Setting
from calibrant.experiments.studies.loss_study_numbers import ArmNumbers
from calibrant.reports.figures import BLUE, VERMILLION, series
from calibrant.reports.svg import drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DRAWN_NORMS = (
    "cross-entropy-no-decay",
    "cross-entropy",
    "focal-1",
    "focal-2",
    "focal-3",
    "focal-calibration",
)


def write_figures(numbers: Sequence[ArmNumbers], folder: Path, setting: Setting) -> list[tuple[str, str]]:
    """Write the figures as SVG; names and captions of those written."""
    written: list[tuple[str, str]] = []
    with drawing_style():
        figure = Figure(figsize=(6.4, 0.6 + 0.28 * len(numbers)), layout="constrained")
        calibration_errors(numbers, ax=figure.add_subplot())
        caption = (
            "Test ECE before (circles) and after temperature scaling (squares); small marks are single seeds."
        )
        written.append((_save(figure, folder / f"{setting.key}-ece.svg"), caption))
        if any(run["norms"] for each in numbers for run in each.runs.values()):
            figure = Figure(figsize=(7.6, 3.4), layout="constrained")
            weight_norms(numbers, ax=figure.add_subplot())
            caption = "Norm of the last layer's weights after each epoch, mean over the seeds."
            written.append((_save(figure, folder / f"{setting.key}-weight-norms.svg"), caption))
    return written


def calibration_errors(numbers: Sequence[ArmNumbers], *, ax: Axes) -> Axes:
    """A row per arm: the mean over the seeds, and each seed."""
    for row, found in enumerate(reversed(numbers)):
        for stage, colour, mark in (("before", VERMILLION, "o"), ("temperature", BLUE, "s")):
            each = [100 * run["stages"][stage]["ece"] for run in found.runs.values()]
            ax.plot(each, [row] * len(each), mark, color=colour, markersize=3, alpha=0.6, linestyle="none")
            ax.plot([mean_of(each).value], [row], mark, color=colour, markersize=7, fillstyle="none")
    ax.set_yticks(range(len(numbers)), [found.arm.title for found in reversed(numbers)])
    ax.set_xlim(left=0)
    ax.set_xlabel("ECE (%)")
    ax.grid(axis="x", alpha=0.3)
    return ax


def weight_norms(numbers: Sequence[ArmNumbers], *, ax: Axes) -> Axes:
    """A line per arm over the epochs."""
    drawn = [found for found in numbers if found.arm.key in _DRAWN_NORMS]
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
            label=found.arm.title,
        )
    ax.set_xlabel("epoch")
    ax.set_ylabel("norm of the last layer's weights")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def _save(figure: Figure, path: Path) -> str:
    """The same bytes for the same figure: no date, and fixed identifiers."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": path.stem}), atomic_write(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    return path.name
