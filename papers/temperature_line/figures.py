"""The picture of the temperature-line study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibrant.reports.figures import GREY, series
from calibrant.reports.figures.drawing import drawing_style
from papers.temperature_line.curves import Curve, arms, file_curves
from papers.temperature_line.settings import LOSSES, Criterion

_SIZES = ("fontsize", "title_fontsize")


def draw_figures(numbers: Mapping[str, Any]) -> list[Figure]:
    """T over its value at exponent 0 for every file, by either criterion, and T of the networks by loss."""
    files = file_curves(numbers)
    worlds = list(dict.fromkeys(world for world, _ in arms(numbers)))
    panels = (2 if files else 0) + len(worlds)
    columns = min(panels, 3)
    rows = -(-panels // columns)
    with drawing_style():
        figure = Figure(figsize=(3.4 * columns, 3.2 * rows + (0.7 if files else 0.2)), layout="constrained")
        axes = [figure.add_subplot(rows, columns, place + 1) for place in range(panels)]
        if files:
            _files(axes[0], files, "nll", "files, T least in NLL")
            _files(axes[1], files, "ece", "files, T least in ECE")
            said = axes[0].get_legend_handles_labels()
            figure.legend(*said, loc="outside lower center", ncols=3, fontsize="x-small", frameon=False)
        for ax, world in zip(axes[panels - len(worlds) :], worlds, strict=True):
            _networks(ax, numbers, world)
    return [figure]


def _files(ax: Axes, curves: Sequence[Curve], by: Criterion, title: str) -> None:
    """Solid what was found, dotted the line of least squares."""
    named = list(dict.fromkeys(curve.stem for curve in curves))
    said: set[str] = set()
    for curve in curves:
        found, line = curve.found["temperatures"].get(by), curve.line() if by == "nll" else curve.ece_line
        if found is None or line is None:
            continue
        name, gammas = curve.stem, np.array(curve.gammas)
        colour, _, dashes = series(named.index(name))
        values = np.array(found) / found[curve.gammas.index(0.0)]
        thin = 0.5 if name != curve.name else 1.3
        label = None if name in said else name.rpartition("/")[2].removesuffix(".npz")
        ax.plot(gammas, values, color=colour, linestyle=dashes, linewidth=thin, label=label)
        straight = (line.intercept + line.slope * gammas) / found[curve.gammas.index(0.0)]
        if name == curve.name:
            ax.plot(gammas, straight, color=GREY, linewidth=0.5, linestyle=":")
        said.add(name)
    _common(ax, title, "T(γ) / T(0)")


def _networks(ax: Axes, numbers: Mapping[str, Any], world: str) -> None:
    """The mean over the seeds of every loss, and the range."""
    gammas = numbers["gammas"]
    for number, (loss, name) in enumerate(LOSSES.items()):
        found = np.array([curve.likeliest for curve in arms(numbers)[world, loss]])
        colour, mark, _ = series(number)
        ax.fill_between(gammas, found.min(axis=0), found.max(axis=0), color=colour, alpha=0.2, linewidth=0)
        style: Any = {"color": colour, "marker": mark, "markersize": 3, "markevery": 2, "linewidth": 1}
        ax.plot(gammas, found.mean(axis=0), label=name, **style)
    _common(ax, f"networks, {world}", "T least in NLL")
    ax.legend(title="trained by", loc="upper left", frameon=False, **dict.fromkeys(_SIZES, "x-small"))


def _common(ax: Axes, title: str, up: str) -> None:
    ax.set_title(title, fontsize="small")
    ax.set_ylabel(up)
    ax.set_xlabel("exponent γ of the calibrator")
    ax.grid(alpha=0.3)
