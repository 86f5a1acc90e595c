"""The focal calibration map and its relation to temperature scaling, as curves.

Figures of Komisarenko and Kull (2024). Each function draws into ``ax`` or a new figure and returns the axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes

from calibrant import theory
from calibrant.reports.figures.drawing import (
    BLUE,
    DASHED,
    GREY,
    VERMILLION,
    diagonal,
    finish,
    new_axes,
    series,
)


def proper_part_curves(*, gammas: Sequence[float] = (0.5, 3.0), ax: Axes | None = None) -> Axes:
    """Loss of a positive event against its probability: focal, its proper part, and cross-entropy.

    References:
        Komisarenko and Kull, 2024, figure 1, left.

    Example:
        >>> len(proper_part_curves().lines)
        5
    """
    ax = new_axes(ax)
    event = torch.linspace(0.005, 0.999, 400, dtype=torch.float64)
    ax.plot(event, -event.log(), color=GREY, linewidth=1.4, label="cross-entropy")
    for place, gamma in enumerate(gammas):
        colour = series(place)[0]
        proper = theory.proper_focal_losses(event, gamma=gamma)[:, 1]
        plain = theory.focal_losses(event, gamma=gamma)[:, 1]
        ax.plot(event, proper, color=colour, linewidth=1.4, label=f"proper part, γ = {gamma:g}")
        ax.plot(event, plain, color=colour, linewidth=1.2, linestyle=DASHED, label=f"focal, γ = {gamma:g}")
    ax.set(xlim=(0, 1), ylim=(0, 3.5), xlabel="probability of the true class", ylabel="loss")
    return finish(ax)


def focal_map_curves(
    *, gammas: Sequence[float] = (-0.5, 0.5, 1.0, 3.0, 10.0), ax: Axes | None = None
) -> Axes:
    """The focal calibration map of an event.

    References:
        Komisarenko and Kull, 2024, figure 1, right.

    Example:
        >>> focal_map_curves().get_xlabel()
        'probability of the network'
    """
    ax = new_axes(ax, width=3.8, height=3.8)
    event = torch.linspace(0, 1, 501, dtype=torch.float64)
    diagonal(ax, "γ = 0")
    for place, gamma in enumerate(gammas):
        mapped = theory.focal_calibration_map(event, gamma=gamma)
        ax.plot(event, mapped, color=series(place)[0], linewidth=1.4, label=f"γ = {gamma:g}")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="probability of the network", ylabel="after the focal calibration map")
    return finish(ax)


def temperature_line(
    *,
    num_classes: int = 2,
    max_gamma: float = 10.0,
    num_gammas: int = 20,
    published: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Inverse temperature closest to the focal map against its exponent, with the straight line through it.

    ``published``, slope and intercept of another line, is drawn dashed.

    References:
        Komisarenko and Kull, 2024, figures 2 and 6, left.

    Example:
        >>> temperature_line(max_gamma=5, num_gammas=5).get_ylabel()
        'inverse temperature 1/T'
    """
    ax = new_axes(ax)
    fit = theory.temperature_fit(num_classes, max_gamma=max_gamma, num_gammas=num_gammas)
    gammas = np.array(fit.gammas)
    ends = np.array([0.0, max_gamma])
    ax.plot(gammas, 1 / np.array(fit.temperatures), "o", color=BLUE, markersize=4, label="closest to the map")
    label = f"least squares: {fit.slope:.3f} γ + {fit.intercept:.3f}"
    ax.plot(ends, fit.slope * ends + fit.intercept, color=VERMILLION, linewidth=1.2, label=label)
    if published is not None:
        slope, intercept = published
        label = f"as published: {slope:g} γ + {intercept:g}"
        ax.plot(ends, slope * ends + intercept, color=GREY, linestyle=DASHED, linewidth=1.2, label=label)
    ax.set(xlim=(0, max_gamma), xlabel="γ", ylabel="inverse temperature 1/T")
    ax.set_title(f"{num_classes} classes", fontsize="medium")
    return finish(ax)


def temperature_errors(
    *, num_classes: int = 3, max_gamma: float = 10.0, num_gammas: int = 20, ax: Axes | None = None
) -> Axes:
    """How far the closest temperature still is from the focal map, against the exponent.

    References:
        Komisarenko and Kull, 2024, figure 6, right.

    Example:
        >>> temperature_errors(num_classes=2, num_gammas=4).get_xlabel()
        'γ'
    """
    ax = new_axes(ax)
    gammas = np.linspace(0, max_gamma, num_gammas + 1)
    errors = [theory.closest_temperature(float(gamma), num_classes).error for gamma in gammas]
    worst = max(errors)
    label = f"at most {worst:.3f} up to γ = {max_gamma:g}"
    ax.plot(gammas, errors, "o-", color=BLUE, markersize=4, linewidth=1.2, label=label)
    ax.set(xlim=(0, max_gamma), ylim=(0, None), xlabel="γ", ylabel="largest difference of a probability")
    ax.set_title(f"{num_classes} classes", fontsize="medium")
    return finish(ax)


def log_odds_maps(*, gammas: Sequence[float] = (0.5, 3.0), ax: Axes | None = None) -> Axes:
    """The focal map on the scale of log-odds, with the closest temperatures.

    References:
        Komisarenko and Kull, 2024, figure 2, right.

    Example:
        >>> log_odds_maps().get_xlabel()
        'log-odds'
    """
    ax = new_axes(ax)
    log_odds = torch.linspace(-4, 4, 401, dtype=torch.float64)
    ax.plot(log_odds, log_odds.sigmoid(), color=GREY, linewidth=1, label="γ = 0")
    for place, gamma in enumerate(gammas):
        mapped = theory.focal_calibration_map_logits(log_odds, gamma=gamma).sigmoid()
        closest = theory.closest_temperature(gamma)
        nearest = (log_odds / closest.temperature).sigmoid()
        colour = series(place)[0]
        ax.plot(log_odds, mapped, color=colour, linewidth=3.2, alpha=0.45, label=f"γ = {gamma:g}")
        label = f"T = {closest.temperature:.3f} (off by {closest.error:.1e})"
        ax.plot(log_odds, nearest, color=colour, linewidth=1.2, linestyle=DASHED, label=label)
    ax.set(xlim=(-4, 4), ylim=(0, 1), xlabel="log-odds", ylabel="probability")
    return finish(ax, legend="lower right", size="x-small")


def temperature_bound_curves(
    *, max_gamma: float = 10.0, max_log_odds: float = 10.0, ax: Axes | None = None
) -> Axes:
    """Temperatures between which the binary map lies: proved, and tight over a range of log-odds.

    ``max_log_odds`` is the range of the tight bounds.

    References:
        Komisarenko and Kull, 2024, figure 3, left.

    Example:
        >>> len(temperature_bound_curves().lines)
        4
    """
    ax = new_axes(ax)
    gammas, bounds = _bounds(max_gamma, max_log_odds)
    tight = f"tight for log-odds up to {max_log_odds:g}"
    for name, label, colour in (
        ("upper", "upper, proved", VERMILLION),
        ("tight_upper", f"upper, {tight}", VERMILLION),
        ("tight_lower", f"lower, {tight}", BLUE),
        ("lower", "lower, proved", BLUE),
    ):
        style = DASHED if name.startswith("tight") else "-"
        values = [getattr(each, name) for each in bounds]
        ax.plot(gammas, values, color=colour, linestyle=style, linewidth=1.3, label=label)
    ax.set(xlim=(0, max_gamma), yscale="log", xlabel="γ", ylabel="temperature T")
    ticks = [0.1, 0.2, 0.3, 0.5, 0.7, 1.0]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_yticks([], minor=True)
    return finish(ax)


def temperature_bound_widths(
    *, max_gamma: float = 10.0, max_log_odds: float = 10.0, ax: Axes | None = None
) -> Axes:
    """How far apart the bounds are.

    References:
        Komisarenko and Kull, 2024, figure 3, right.

    Example:
        >>> len(temperature_bound_widths().lines)
        2
    """
    ax = new_axes(ax)
    gammas, bounds = _bounds(max_gamma, max_log_odds)
    ax.plot(gammas, [each.upper - each.lower for each in bounds], color=BLUE, linewidth=1.3, label="proved")
    tight = [each.tight_upper - each.tight_lower for each in bounds]
    label = f"tight for log-odds up to {max_log_odds:g}"
    ax.plot(gammas, tight, color=BLUE, linestyle=DASHED, linewidth=1.3, label=label)
    ax.set(xlim=(0, max_gamma), ylim=(0, None), xlabel="γ", ylabel="width of the bounds on T")
    return finish(ax)


def _bounds(max_gamma: float, max_log_odds: float) -> tuple[list[float], list[theory.TemperatureBounds]]:
    gammas = np.linspace(0, max_gamma, 41).tolist()
    return gammas, [theory.temperature_bounds(gamma, max_log_odds=max_log_odds) for gamma in gammas]
