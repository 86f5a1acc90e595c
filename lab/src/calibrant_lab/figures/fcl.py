"""Focal calibration loss: the function from which its order follows, and what it elicits.

Each function draws into ``ax`` or a new figure and returns the axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes

from calibrant import theory
from calibrant.reports.figures.drawing import DASHED, GREY, add_curve, finish, new_axes, series


def phi_curves(
    *,
    options: Sequence[tuple[float, float]] = ((0.0, 0.4), (0.0, 2.0), (1.0, 0.5), (3.0, 0.5), (3.0, 1.5)),
    ax: Axes | None = None,
) -> Axes:
    """The function phi of focal calibration loss, with its root where it has one.

    ``options`` are pairs of exponent and weight of the squared distance.

    References:
        "Towards Trustworthy Deep Neural Network through Euclidean Distance" (focal calibration loss), 2025,
        figure 5 and appendix A.6.

    Example:
        >>> phi_curves(options=((2.0, 0.5),)).get_ylabel()
        'φ(v)'
    """
    ax = new_axes(ax)
    values = torch.linspace(0.02, 0.9999, 400, dtype=torch.float64)
    ax.axhline(0, color=GREY, linewidth=1, linestyle=DASHED)
    for place, (gamma, weight) in enumerate(options):
        phi = theory.focal_calibration_phi(values, gamma=gamma, calibration_weight=weight)
        root = theory.focal_calibration_root(gamma=gamma, calibration_weight=weight)
        ended = "no root" if root is None else f"root {root:.3f}"
        add_curve(ax, place, values, phi, f"γ = {gamma:g}, λ = {weight:g}: {ended}")
        if root is not None:
            colour, shape, _ = series(place)
            ax.plot(root, 0, shape, color=colour, markersize=4)
    ax.set(xlim=(0, 1), ylim=(-4, 8), xlabel="v", ylabel="φ(v)")
    return finish(ax)


def elicited_by_weight(
    *,
    event_rate: float = 0.8,
    gammas: Sequence[float] = (1.0, 2.0, 3.0, 5.0),
    max_weight: float = 10.0,
    ax: Axes | None = None,
) -> Axes:
    """The probability that focal calibration loss elicits, against the weight of its squared distance.

    A strictly proper loss would elicit the truth at every weight.

    Example:
        >>> len(elicited_by_weight(gammas=(2.0,)).lines)
        2
    """
    ax = new_axes(ax)
    ax.axhline(event_rate, color=GREY, linewidth=1, linestyle=DASHED, label="truth")
    weights = torch.linspace(0, max_weight, 41).tolist()
    for place, gamma in enumerate(gammas):
        elicited = [
            theory.focal_calibration_minimiser([event_rate], gamma=gamma, calibration_weight=weight).item()
            for weight in weights
        ]
        add_curve(ax, place, weights, elicited, f"γ = {gamma:g}")
    ax.set(xlim=(0, max_weight), xlabel="weight λ of the squared distance", ylabel="elicited probability")
    return finish(ax)
