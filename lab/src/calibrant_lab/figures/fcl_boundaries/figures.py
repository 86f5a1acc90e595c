"""The figure of the boundaries that focal loss and focal calibration loss learn."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure

from calibrant.reports.figures import BLUE, VERMILLION
from calibrant.reports.figures.drawing import drawing_style
from calibrant_lab.figures.fcl_boundaries.measure import Boundary, train_boundary

_GAMMA, _CALIBRATION_WEIGHT = 10.0, 1.5


def draw_figure() -> Figure:
    """Focal loss on the left, focal calibration loss on the right; probabilities, even odds, points."""
    with drawing_style():
        figure = Figure(figsize=(8.4, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw(train_boundary(_GAMMA, 0.0), f"focal, γ = {_GAMMA:g}", left)
        name = f"FCL, λ = {_CALIBRATION_WEIGHT:g}, γ = {_GAMMA:g}"
        drawn = _draw(train_boundary(_GAMMA, _CALIBRATION_WEIGHT), name, right)
        figure.colorbar(drawn, ax=figure.axes, label="probability of class 1")
    return figure


def _draw(found: Boundary, name: str, ax: Axes) -> QuadContourSet:
    drawn = ax.contourf(
        found.across, found.up, found.probs, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.75
    )
    ax.contour(found.across, found.up, found.probs, levels=[0.5], colors="black", linewidths=1.2)
    for label, mark, colour in ((0, "o", VERMILLION), (1, "^", BLUE)):
        x, y = found.points[found.labels == label][::2].T  # every other one
        ax.plot(x, y, mark, color=colour, markersize=2.8, markeredgecolor="white", markeredgewidth=0.3)
    ax.set(xlabel="x1", ylabel="x2")
    how_sure = f"confidence {found.confidence:.2f}, accuracy {found.accuracy:.2f}"
    ax.set_title(f"{name}: {how_sure}", fontsize="medium")
    return drawn
