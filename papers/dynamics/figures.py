"""The figure of the study of dynamics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibrant._math.means import mean_of
from calibrant.reports.figures import GREY, series
from calibrant.reports.figures.drawing import drawing_style
from papers.arms import Run
from papers.dynamics.numbers import arms_of
from papers.dynamics.settings import EPOCHS, WAYS
from papers.losses.settings import DROP

_PANELS = (
    ("nll_incorrect", "NLL, wrong images"),
    ("nll_correct", "NLL, right images"),
    ("entropy_incorrect", "entropy, wrong images"),
    ("norms", "norm of the last layer"),
)


def draw_figures(numbers: Mapping[str, Any]) -> list[Figure]:
    """A row for each way: likelihoods, entropy and weight norm by epoch; means over the seeds."""
    with drawing_style():
        figure = Figure(figsize=(10.4, 5.6), layout="constrained")
        axes = figure.subplots(len(WAYS), len(_PANELS), squeeze=False, sharex=True, sharey="col")
        for row, way in zip(axes, WAYS, strict=True):
            for ax, (name, title) in zip(row, _PANELS, strict=True):
                for place, arm in enumerate(arms_of(numbers, way).values()):
                    courses = [_course(run, name) for run in arm.runs.values()]
                    means = [mean_of(values).value for values in zip(*courses, strict=True)]
                    colour, mark, _ = series(place)
                    ax.plot(
                        range(1, EPOCHS + 1),
                        means,
                        color=colour,
                        marker=mark,
                        markersize=2.5,
                        label=arm.title,
                    )
                ax.axvline(DROP + 0.5, color=GREY, linewidth=0.8)
                ax.set_title(f"{title}, {WAYS[way]}", fontsize="small")
                ax.xaxis.set_major_locator(MaxNLocator(integer=True))
                ax.grid(alpha=0.3)
        for ax in axes[-1]:
            ax.set_xlabel("epoch")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return [figure]


def _course(run: Run, name: str) -> list[float]:
    return run["norms"] if name == "norms" else run["held_out"][name]
