"""Panels of losses and maps on the triangle of three probabilities, as in Komisarenko and Kull (2024).

Each function draws into the axes that it is given; the figures say which of the paper's it repeats.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy import ndarray
from torch import Tensor

from calibrant import theory
from calibrant._math.shapes import Float
from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
_TRUTH = (0.55, 0.30, 0.15)
_ENCLOSED = (3, 12, 20)
"""Per cent of the triangle that the lines of equal loss enclose."""


def risk_isolines(
    ax: Axes, *, loss: Literal["brier", "cross-entropy", "proper-focal"] = "proper-focal", gamma: float = 1.0
) -> None:
    """Lines of equal expected loss around the true probabilities; ``gamma`` is that of the proper part."""
    rows = _grid(90)
    if loss == "brier":
        table, title = (rows[:, None] - torch.eye(3)).square().sum(2), "Brier score"
    elif loss == "cross-entropy":
        table, title = -rows.log(), "cross-entropy"
    else:
        table = theory.proper_focal_losses(rows, gamma=gamma)
        title = f"proper part of focal, γ = {gamma:g}"
    _triangle(ax, title)
    truth = torch.tensor(_TRUTH, dtype=torch.float64)
    risk, points = (table @ truth).numpy(), _placed(rows)
    levels = np.percentile(risk, _ENCLOSED)
    ax.tricontour(points[:, 0], points[:, 1], risk, levels=levels, colors=BLUE, linewidths=1.2)
    ax.plot(*_placed(truth[None])[0], "o", color=VERMILLION, markersize=4)


def map_arrows(ax: Axes, *, gamma: float) -> None:
    """Where the focal map takes the points of the triangle."""
    rows = _grid(12)
    _arrows(ax, f"focal map, γ = {gamma:g}", rows, theory.focal_calibration_map(rows, gamma=gamma))


def closest_temperature_arrows(ax: Axes, *, gamma: float) -> None:
    """Where the temperature closest to a focal map takes the points of the triangle."""
    rows, temperature = _grid(12), theory.closest_temperature(gamma, 3).temperature
    title = f"closest to γ = {gamma:g}: T = {temperature:.3f}"
    _arrows(ax, title, rows, (rows.log() / temperature).softmax(1))


def temperature_differences(ax: Axes, *, gamma: float) -> None:
    """Largest difference of a probability between the focal map and its closest temperature."""
    rows, temperature = _grid(90), theory.closest_temperature(gamma, 3).temperature
    _triangle(ax, f"γ = {gamma:g}, T = {temperature:.3f}")
    scaled = (rows.log() / temperature).softmax(1)
    difference = (theory.focal_calibration_map(rows, gamma=gamma) - scaled).abs().amax(1)
    points = _placed(rows)
    drawn = ax.tricontourf(points[:, 0], points[:, 1], difference.numpy(), levels=12, cmap="viridis")
    ax.figure.colorbar(drawn, ax=ax, shrink=0.75)


def _arrows(ax: Axes, title: str, rows: Float[Tensor, "N 3"], mapped: Float[Tensor, "N 3"]) -> None:
    _triangle(ax, title)
    (x, y), (to_x, to_y) = _placed(rows).T, _placed(mapped).T
    ax.plot(x, y, ".", color=GREY, markersize=3, markeredgewidth=0)
    units: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1}
    ax.quiver(x, y, to_x - x, to_y - y, width=0.0032, headwidth=3.5, minlength=0, color=BLUE, **units)


def _grid(steps: int) -> Float[Tensor, "N 3"]:
    """Points of the triangle, evenly spaced and off its sides."""
    pairs = [(i, j) for i in range(1, steps) for j in range(1, steps - i)]
    ij = torch.tensor(pairs, dtype=torch.float64)
    return torch.cat([ij, steps - ij.sum(1, keepdim=True)], dim=1) / steps


def _placed(rows: Float[Tensor, "N 3"]) -> Float[ndarray, "N 2"]:
    return rows.numpy() @ _CORNERS


def _triangle(ax: Axes, title: str) -> None:
    outline = np.vstack([_CORNERS, _CORNERS[:1]])
    ax.plot(outline[:, 0], outline[:, 1], color=ax.xaxis.label.get_color(), linewidth=0.9)
    for place, (x, y) in enumerate(_CORNERS):
        below = (0, 4 if y > 0 else -11)
        ax.annotate(f"$q_{place + 1}$", (x, y), xytext=below, textcoords="offset points", ha="center")
    ax.set(xlim=(-0.06, 1.06), ylim=(-0.1, 0.96), aspect="equal")
    ax.set_title(title, fontsize="medium")
    ax.set_axis_off()
