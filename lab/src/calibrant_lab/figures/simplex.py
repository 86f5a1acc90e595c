"""Losses and maps on the triangle of three probabilities.

Figures of Komisarenko and Kull (2024). Each function draws into ``ax`` or a new figure and returns the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy import ndarray
from torch import Tensor

from calibrant import theory
from calibrant._math.checks import check_choice
from calibrant._math.shapes import Float
from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION, new_axes

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def risk_isolines(
    *,
    loss: Literal["brier", "cross-entropy", "proper-focal"] = "proper-focal",
    gamma: float = 1.0,
    truth: Sequence[float] = (0.55, 0.30, 0.15),
    percentiles: Sequence[float] = (3, 12, 20),
    ax: Axes | None = None,
) -> Axes:
    """Lines of equal expected loss around the true probabilities.

    Each line encloses one of ``percentiles``, a share of the triangle in per cent; ``gamma`` is the exponent
    of the properized focal loss.

    References:
        Komisarenko and Kull, 2024, figure 4.

    Example:
        >>> risk_isolines(gamma=3).get_title()
        'proper part of focal, γ = 3'
    """
    check_choice("loss", loss, ("brier", "cross-entropy", "proper-focal"))
    ax = _triangle(ax)
    rows = _grid(90)
    weights = torch.tensor(truth, dtype=torch.float64)
    if loss == "brier":
        table, title = (rows[:, None] - torch.eye(3)).square().sum(2), "Brier score"
    elif loss == "cross-entropy":
        table, title = -rows.log(), "cross-entropy"
    else:
        table = theory.proper_focal_losses(rows, gamma=gamma)
        title = f"proper part of focal, γ = {gamma:g}"
    risk = (table @ weights).numpy()
    points = _placed(rows)
    levels = np.percentile(risk, percentiles)
    ax.tricontour(points[:, 0], points[:, 1], risk, levels=levels, colors=BLUE, linewidths=1.2)
    ax.plot(*_placed(weights[None])[0], "o", color=VERMILLION, markersize=4)
    ax.set_title(title, fontsize="medium")
    return ax


def map_arrows(
    *, gamma: float | None = 1.0, temperature: float | None = None, ax: Axes | None = None
) -> Axes:
    """Where the focal map, or a temperature, takes the points of the triangle.

    ``temperature`` divides the logits where ``gamma``, the exponent of the focal map, is ``None``.

    References:
        Komisarenko and Kull, 2024, figure 5.

    Example:
        >>> map_arrows(gamma=None, temperature=0.5).get_title()
        'T = 0.500'
    """
    ax = _triangle(ax)
    rows = _grid(12)
    before, after = _placed(rows), _placed(_mapped(rows, gamma, temperature))
    moved = after - before
    ax.plot(before[:, 0], before[:, 1], ".", color=GREY, markersize=3, markeredgewidth=0)
    ax.quiver(
        before[:, 0],
        before[:, 1],
        moved[:, 0],
        moved[:, 1],
        angles="xy",
        scale_units="xy",
        scale=1,
        width=0.0032,
        headwidth=3.5,
        minlength=0,
        color=BLUE,
    )
    ax.set_title(
        f"T = {temperature:.3f}" if gamma is None else f"focal map, γ = {gamma:g}", fontsize="medium"
    )
    return ax


def closest_temperature_arrows(*, gamma: float = 1.0, ax: Axes | None = None) -> Axes:
    """Where the temperature closest to a focal map takes the points of the triangle.

    Example:
        >>> closest_temperature_arrows(gamma=1).get_title()
        'closest to γ = 1: T = 0.658'
    """
    temperature = theory.closest_temperature(gamma, 3).temperature
    ax = map_arrows(gamma=None, temperature=temperature, ax=ax)
    ax.set_title(f"closest to γ = {gamma:g}: T = {temperature:.3f}", fontsize="medium")
    return ax


def temperature_differences(*, gamma: float = 0.5, ax: Axes | None = None) -> Axes:
    """Largest difference of a probability between the focal map and its closest temperature.

    References:
        Komisarenko and Kull, 2024, figure 7.

    Example:
        >>> temperature_differences(gamma=0.5).get_title()
        'γ = 0.5, T = 0.806'
    """
    ax = _triangle(ax)
    rows = _grid(90)
    temperature = theory.closest_temperature(gamma, 3).temperature
    difference = (_mapped(rows, gamma, None) - _mapped(rows, None, temperature)).abs().amax(1)
    points = _placed(rows)
    drawn = ax.tricontourf(points[:, 0], points[:, 1], difference.numpy(), levels=12, cmap="viridis")
    ax.figure.colorbar(drawn, ax=ax, shrink=0.75)
    ax.set_title(f"γ = {gamma:g}, T = {temperature:.3f}", fontsize="medium")
    return ax


def _mapped(
    rows: Float[Tensor, "N 3"], gamma: float | None, temperature: float | None
) -> Float[Tensor, "N 3"]:
    if gamma is not None:
        return theory.focal_calibration_map(rows, gamma=gamma)
    return (rows.log() / (temperature or 1)).softmax(1)


def _grid(steps: int) -> Float[Tensor, "N 3"]:
    """Points of the triangle, evenly spaced and off its sides."""
    pairs = [(i, j) for i in range(1, steps) for j in range(1, steps - i)]
    ij = torch.tensor(pairs, dtype=torch.float64)
    return torch.cat([ij, steps - ij.sum(1, keepdim=True)], dim=1) / steps


def _placed(rows: Float[Tensor, "N 3"]) -> Float[ndarray, "N 2"]:
    return rows.numpy() @ _CORNERS


def _triangle(ax: Axes | None) -> Axes:
    ax = new_axes(ax, width=3.6, height=3.4)
    outline = np.vstack([_CORNERS, _CORNERS[:1]])
    ax.plot(outline[:, 0], outline[:, 1], color=ax.xaxis.label.get_color(), linewidth=0.9)
    for place, (x, y) in enumerate(_CORNERS):
        ax.annotate(
            f"$q_{place + 1}$",
            (x, y),
            xytext=(0, 4 if y > 0 else -11),
            textcoords="offset points",
            ha="center",
        )
    ax.set(xlim=(-0.06, 1.06), ylim=(-0.1, 0.96), aspect="equal")
    ax.set_axis_off()
    return ax
