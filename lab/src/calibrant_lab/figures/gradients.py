"""Focal loss's gradient against cross-entropy's, and the probabilities that focal loss elicits.

Figures of Mukhoti et al. (2020). Each function draws into ``ax`` or a new figure and returns the axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes

from calibrant import theory
from calibrant.reports.figures import drawing


def gradient_factors(*, gammas: Sequence[float] = (1.0, 2.0, 3.0, 5.0, 7.0), ax: Axes | None = None) -> Axes:
    """Focal loss's gradient over cross-entropy's, against the probability of the true class.

    A dot on each curve marks where the factor is 1.

    References:
        Mukhoti et al., 2020, figure 4 (a).

    Example:
        >>> gradient_factors(gammas=(1.0,)).get_ylabel()
        'g(p, γ)'
    """
    ax = drawing.new_axes(ax)
    probs = torch.linspace(0, 1, 501, dtype=torch.float64)
    ax.axhline(1, color=drawing.GREY, linewidth=1, linestyle=drawing.DASHED, label="γ = 0 (cross-entropy)")
    for place, gamma in enumerate(gammas):
        drawing.add_curve(ax, place, probs, theory.gradient_factor(probs, gamma=gamma), f"γ = {gamma:g}")
        colour, shape, _ = drawing.series(place)
        ax.plot(theory.gradient_threshold(gamma=gamma), 1, shape, color=colour, markersize=4)
    ax.set(xlim=(0, 1), ylim=(0, None), xlabel="probability p of the true class", ylabel="g(p, γ)")
    return drawing.finish(ax)


def gradient_thresholds(*, max_gamma: float = 10.0, ax: Axes | None = None) -> Axes:
    """Where focal loss begins to push less than cross-entropy, and where it pushes most, by the exponent.

    References:
        Mukhoti et al., 2020, proposition 2.

    Example:
        >>> len(gradient_thresholds().lines)
        4
    """
    ax = drawing.new_axes(ax)
    gammas = torch.linspace(0, max_gamma, 201).tolist()
    thresholds = [theory.gradient_threshold(gamma=gamma) for gamma in gammas]
    turns = [theory.gradient_turning_point(gamma=gamma).probability for gamma in gammas]
    ax.plot(gammas, thresholds, color=drawing.BLUE, linewidth=1.4, label="g = 1: pushes less from here on")
    ax.plot(gammas, turns, color=drawing.VERMILLION, linestyle="--", linewidth=1.4, label="g largest")
    factor = theory.gradient_factor(0.19, gamma=5).item()
    ax.plot(5, 0.19, "x", color=drawing.GREY, label=f"chosen in the paper: g(0.19, 5) = {factor:.3f}")
    exact = theory.lambert_branches(0.19).lower
    ax.plot(exact, 0.19, "o", color=drawing.BLUE, markersize=4, label=f"exact: γ = {exact:.2f}")
    ax.set(xlim=(0, max_gamma), ylim=(0, 0.6), xlabel="γ", ylabel="probability of the true class")
    return drawing.finish(ax)


def elicited_probabilities(
    *, gammas: Sequence[float] = (0.5, 1.0, 2.0, 3.0, 5.0), ax: Axes | None = None
) -> Axes:
    """The probability of an event that focal loss elicits, against the true one.

    References:
        Mukhoti et al., 2020, figure 7.

    Example:
        >>> elicited_probabilities(gammas=(2.0,)).get_xlabel()
        'true probability'
    """
    ax = drawing.new_axes(ax, width=3.8, height=3.8)
    event = torch.linspace(0, 1, 401, dtype=torch.float64)
    drawing.diagonal(ax, "γ = 0 (cross-entropy)")
    for place, gamma in enumerate(gammas):
        elicited = theory.inverse_focal_calibration_map(event, gamma=gamma)
        drawing.add_curve(ax, place, event, elicited, f"γ = {gamma:g}")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="true probability", ylabel="probability that focal loss elicits")
    return drawing.finish(ax)


def entropy_shifts(
    *, gamma: float = 1.0, num_classes: Sequence[int] = (2, 3, 20, 100), ax: Axes | None = None
) -> Axes:
    """Entropy that focal loss's minimiser has more than the truth, where all classes but one are equal.

    Below zero focal loss makes a network more certain than it should be.

    References:
        Mukhoti et al., 2020, appendix H, says that it is always above zero.

    Example:
        >>> bool(min(entropy_shifts(num_classes=(100,)).lines[1].get_ydata()) < -0.04)
        True
    """
    ax = drawing.new_axes(ax, height=3.8)
    ax.axhline(0, color=drawing.GREY, linewidth=1, linestyle=drawing.DASHED)
    for place, count in enumerate(num_classes):
        top = torch.linspace(1 / count, 0.9999, 400, dtype=torch.float64)
        rest = ((1 - top) / (count - 1))[:, None].expand(-1, count - 1)
        shift = theory.entropy_shift(torch.cat([top[:, None], rest], dim=1), gamma=gamma)
        drawing.add_curve(ax, place, top, shift, f"{count} classes")
    ax.set(xlim=(0, 1), xlabel="true probability of the top class", ylabel="entropy gained (nats)")
    ax.set_title(f"γ = {gamma:g}, the other classes equal", fontsize="medium")
    return drawing.finish(ax)
