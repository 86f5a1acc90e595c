"""Panels of the papers' theory, drawn into given axes; the figures name the papers' originals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from numpy import ndarray
from torch import Tensor, nn

from calibrant import theory
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.losses import focal_calibration_loss
from calibrant.reports.figures.drawing import (
    BLUE,
    DASHED,
    GREY,
    VERMILLION,
    add_curve,
    diagonal,
    drawing_style,
    finish,
    series,
)
from calibrant_lab.theory import confidence_region, temperature_fit

_MAX_GAMMA = 10.0
_MAX_LOG_ODDS = 10.0  # the range of the tight bounds
_TIGHT = f"tight for log-odds up to {_MAX_LOG_ODDS:g}"
_CLASSES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 20, 30, 50, 100, 300, 1000)


def _guide(ax: Axes, at: float, label: str | None = None, color: str = GREY) -> None:
    ax.axhline(at, color=color, linewidth=1, linestyle=DASHED, label=label)


def _mark(ax: Axes, place: int, x: float, y: float) -> None:
    colour, shape, _ = series(place)
    ax.plot(x, y, shape, color=colour, markersize=4)


def _end(ax: Axes, across: str, up: str, title: str = "", legend: Any = None, **limits: Any) -> None:
    """Set labels, limits and a title, and end with the legend."""
    ax.set(xlabel=across, ylabel=up, **limits)
    if title:
        ax.set_title(title, fontsize="medium")
    finish(ax, **(legend or {}))


# ---------------------------------------------------------------- of Mukhoti and others, 2020


def gradient_factors(ax: Axes) -> None:
    """Plot the ratio of focal loss's gradient to cross-entropy's; dots mark a factor of 1."""
    probs = torch.linspace(0, 1, 501, dtype=torch.float64)
    _guide(ax, 1, "γ = 0 (cross-entropy)")
    for place, gamma in enumerate((1, 2, 3, 5, 7)):
        add_curve(ax, place, probs, theory.gradient_factor(probs, gamma=gamma), f"γ = {gamma:g}")
        _mark(ax, place, theory.gradient_threshold(gamma=gamma), 1)
    _end(ax, "probability p of the true class", "g(p, γ)", xlim=(0, 1), ylim=(0, None))


def gradient_thresholds(ax: Axes) -> None:
    """Plot where focal loss's gradient falls below cross-entropy's, and where it peaks (proposition 2)."""
    gammas = torch.linspace(0, _MAX_GAMMA, 201).tolist()
    thresholds = [theory.gradient_threshold(gamma=gamma) for gamma in gammas]
    turns = [theory.gradient_turning_point(gamma=gamma).probability for gamma in gammas]
    ax.plot(gammas, thresholds, color=BLUE, linewidth=1.4, label="g = 1: pushes less from here on")
    ax.plot(gammas, turns, color=VERMILLION, linestyle="--", linewidth=1.4, label="g largest")
    factor = theory.gradient_factor(0.19, gamma=5).item()
    ax.plot(5, 0.19, "x", color=GREY, label=f"chosen in the paper: g(0.19, 5) = {factor:.3f}")
    exact = theory.lambert_branches(0.19).lower
    ax.plot(exact, 0.19, "o", color=BLUE, markersize=4, label=f"exact: γ = {exact:.2f}")
    _end(ax, "γ", "probability of the true class", xlim=(0, _MAX_GAMMA), ylim=(0, 0.6))


def elicited_probabilities(ax: Axes) -> None:
    event = torch.linspace(0, 1, 401, dtype=torch.float64)
    diagonal(ax, "γ = 0 (cross-entropy)")
    for place, gamma in enumerate((0.5, 1, 2, 3, 5)):
        add_curve(
            ax, place, event, theory.inverse_focal_calibration_map(event, gamma=gamma), f"γ = {gamma:g}"
        )
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    _end(ax, "true probability", "probability that focal loss elicits")


def entropy_shifts(ax: Axes) -> None:
    """Plot the minimiser's minus the true entropy: negative for many classes, contrary to appendix H."""
    _guide(ax, 0)
    for place, count in enumerate((2, 3, 20, 100)):
        top = torch.linspace(1 / count, 0.9999, 400, dtype=torch.float64)
        rest = ((1 - top) / (count - 1))[:, None].expand(-1, count - 1)
        shift = theory.entropy_shift(torch.cat([top[:, None], rest], dim=1), gamma=1.0)
        add_curve(ax, place, top, shift, f"{count} classes")
    ax.set(xlim=(0, 1))
    _end(ax, "true probability of the top class", "entropy gained (nats)", "γ = 1, the other classes equal")


# ---------------------------------------------------------------- of Komisarenko and Kull, 2024


def proper_part_curves(ax: Axes) -> None:
    """Plot losses of a positive event: focal, its proper part, and cross-entropy."""
    event = torch.linspace(0.005, 0.999, 400, dtype=torch.float64)
    ax.plot(event, -event.log(), color=GREY, linewidth=1.4, label="cross-entropy")
    for place, gamma in enumerate((0.5, 3)):
        plain = theory.focal_losses(event, gamma=gamma)[:, 1]
        proper = theory.proper_focal_losses(event, gamma=gamma)[:, 1]
        line = add_curve(ax, place, event, proper, f"proper part, γ = {gamma:g}")
        style: dict[str, Any] = {"color": line.get_color(), "linestyle": DASHED}
        ax.plot(event, plain, linewidth=1.2, label=f"focal, γ = {gamma:g}", **style)
    _end(ax, "probability of the true class", "loss", xlim=(0, 1), ylim=(0, 3.5))


def focal_map_curves(ax: Axes) -> None:
    event = torch.linspace(0, 1, 501, dtype=torch.float64)
    diagonal(ax, "γ = 0")
    for place, gamma in enumerate((-0.5, 0.5, 1, 3, 10)):
        add_curve(ax, place, event, theory.focal_calibration_map(event, gamma=gamma), f"γ = {gamma:g}")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    _end(ax, "probability of the network", "after the focal calibration map")


def temperature_line(ax: Axes, *, num_classes: int, num_gammas: int, published: tuple[float, float]) -> None:
    """Plot the inverse temperature closest to the focal map, a fitted line, and a published one."""
    fit = temperature_fit(num_classes, max_gamma=_MAX_GAMMA, num_gammas=num_gammas)
    ends, inverse = np.array([0.0, _MAX_GAMMA]), 1 / np.array(fit.temperatures)
    ax.plot(fit.gammas, inverse, "o", color=BLUE, markersize=4, label="closest to the map")
    label = f"least squares: {fit.slope:.3f} γ + {fit.intercept:.3f}"
    ax.plot(ends, fit.slope * ends + fit.intercept, color=VERMILLION, linewidth=1.2, label=label)
    slope, intercept = published
    label = f"as published: {slope:g} γ + {intercept:g}"
    ax.plot(ends, slope * ends + intercept, color=GREY, linestyle=DASHED, linewidth=1.2, label=label)
    _end(ax, "γ", "inverse temperature 1/T", f"{num_classes} classes", xlim=(0, _MAX_GAMMA))


def temperature_errors(ax: Axes) -> None:
    gammas = np.linspace(0, _MAX_GAMMA, 11)
    errors = [theory.closest_temperature(float(gamma), 3).error for gamma in gammas]
    label = f"at most {max(errors):.3f} up to γ = {_MAX_GAMMA:g}"
    ax.plot(gammas, errors, "o-", color=BLUE, markersize=4, linewidth=1.2, label=label)
    _end(ax, "γ", "largest difference of a probability", "3 classes", xlim=(0, _MAX_GAMMA), ylim=(0, None))


def log_odds_maps(ax: Axes) -> None:
    log_odds = torch.linspace(-4, 4, 401, dtype=torch.float64)
    ax.plot(log_odds, log_odds.sigmoid(), color=GREY, linewidth=1, label="γ = 0")
    for place, gamma in enumerate((0.5, 3)):
        mapped = theory.focal_calibration_map_logits(log_odds, gamma=gamma).sigmoid()
        closest = theory.closest_temperature(gamma)
        nearest = (log_odds / closest.temperature).sigmoid()
        colour = series(place)[0]
        ax.plot(log_odds, mapped, color=colour, linewidth=3.2, alpha=0.45, label=f"γ = {gamma:g}")
        label = f"T = {closest.temperature:.3f} (off by {closest.error:.1e})"
        ax.plot(log_odds, nearest, color=colour, linewidth=1.2, linestyle=DASHED, label=label)
    ax.set(xlim=(-4, 4), ylim=(0, 1))
    _end(ax, "log-odds", "probability", legend={"legend": "lower right", "size": "x-small"})


def temperature_bound_curves(ax: Axes) -> None:
    """Plot bounds on the temperatures of the binary map: proved, and tight over a range of log-odds."""
    gammas, bounds = _bounds()
    for name, label, colour, style in (
        ("upper", "upper, proved", VERMILLION, "-"),
        ("tight_upper", f"upper, {_TIGHT}", VERMILLION, DASHED),
        ("tight_lower", f"lower, {_TIGHT}", BLUE, DASHED),
        ("lower", "lower, proved", BLUE, "-"),
    ):
        values = [getattr(each, name) for each in bounds]
        ax.plot(gammas, values, color=colour, linestyle=style, linewidth=1.3, label=label)
    ax.set_yscale("log")
    ticks = [0.1, 0.2, 0.3, 0.5, 0.7, 1.0]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_yticks([], minor=True)
    _end(ax, "γ", "temperature T", xlim=(0, _MAX_GAMMA))


def temperature_bound_widths(ax: Axes) -> None:
    gammas, bounds = _bounds()
    ax.plot(gammas, [each.upper - each.lower for each in bounds], color=BLUE, linewidth=1.3, label="proved")
    tight = [each.tight_upper - each.tight_lower for each in bounds]
    ax.plot(gammas, tight, color=BLUE, linestyle=DASHED, linewidth=1.3, label=_TIGHT)
    _end(ax, "γ", "width of the bounds on T", xlim=(0, _MAX_GAMMA), ylim=(0, None))


def _bounds() -> tuple[list[float], list[theory.TemperatureBounds]]:
    gammas = np.linspace(0, _MAX_GAMMA, 41).tolist()
    return gammas, [theory.temperature_bounds(gamma, max_log_odds=_MAX_LOG_ODDS) for gamma in gammas]


def confidence_regions(ax: Axes, *, gamma: float) -> None:
    """Plot top probabilities that the focal map always raises, never raises, or sometimes raises."""
    regions = [confidence_region(gamma, count) for count in _CLASSES]
    threshold = theory.confidence_threshold(gamma)
    least = [1 / count for count in _CLASSES]
    lowered = [region.lowered_below for region in regions]
    raised = [min(region.raised_above, region.lowered_below) for region in regions]
    ax.fill_between(_CLASSES, lowered, 1, color=BLUE, alpha=0.25, linewidth=0, label="raised")
    ax.fill_between(_CLASSES, raised, lowered, color=GREY, alpha=0.35, linewidth=0, label="raised or lowered")
    ax.fill_between(_CLASSES, least, raised, color=VERMILLION, alpha=0.35, linewidth=0, label="lowered")
    _guide(ax, threshold.above, "g = 1", BLUE)
    _guide(ax, threshold.below, "g largest", VERMILLION)
    ax.plot(_CLASSES, least, color=ax.xaxis.label.get_color(), linewidth=1, label="1 / number of classes")
    ax.set(xscale="log", xlim=(_CLASSES[0], _CLASSES[-1]), ylim=(0, 0.85))
    legend = {"legend": "upper right", "columns": 2}
    _end(ax, "number of classes", "top probability", f"γ = {gamma:g}", legend)


# ---------------------------------------------------------------- of focal calibration loss, 2025


def phi_curves(ax: Axes) -> None:
    """Plot the function phi of appendix A.6, which orders the loss, with its root if any."""
    values = torch.linspace(0.02, 0.9999, 400, dtype=torch.float64)
    _guide(ax, 0)
    for place, (gamma, weight) in enumerate(((0, 0.4), (0, 2), (1, 0.5), (3, 0.5), (3, 1.5))):
        phi = theory.focal_calibration_phi(values, gamma=gamma, calibration_weight=weight)
        root = theory.focal_calibration_root(gamma=gamma, calibration_weight=weight)
        ended = "no root" if root is None else f"root {root:.3f}"
        add_curve(ax, place, values, phi, f"γ = {gamma:g}, λ = {weight:g}: {ended}")
        if root is not None:
            _mark(ax, place, root, 0)
    _end(ax, "v", "φ(v)", xlim=(0, 1), ylim=(-4, 8))


def elicited_by_weight(ax: Axes) -> None:
    """Plot the elicited probability, which a strictly proper loss would keep true at every weight."""
    event_rate, max_weight = 0.8, 10.0
    _guide(ax, event_rate, "truth")
    weights = torch.linspace(0, max_weight, 41).tolist()
    for place, gamma in enumerate((1, 2, 3, 5)):
        elicited = [
            theory.focal_calibration_minimiser([event_rate], gamma=gamma, calibration_weight=weight).item()
            for weight in weights
        ]
        add_curve(ax, place, weights, elicited, f"γ = {gamma:g}")
    _end(ax, "weight λ of the squared distance", "elicited probability", xlim=(0, max_weight))


_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
_TRUTH = (0.55, 0.30, 0.15)
_ENCLOSED = (3, 12, 20)  # per cent of the triangle that the lines of equal loss enclose


def risk_isolines(
    ax: Axes, *, loss: Literal["brier", "cross-entropy", "proper-focal"] = "proper-focal", gamma: float = 1.0
) -> None:
    """Draw contours of expected loss around the true probabilities, for the proper part at ``gamma``."""
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
    rows = _grid(12)
    _arrows(ax, f"focal map, γ = {gamma:g}", rows, theory.focal_calibration_map(rows, gamma=gamma))


def closest_temperature_arrows(ax: Axes, *, gamma: float) -> None:
    rows, temperature = _grid(12), theory.closest_temperature(gamma, 3).temperature
    title = f"closest to γ = {gamma:g}: T = {temperature:.3f}"
    _arrows(ax, title, rows, (rows.log() / temperature).softmax(1))


def temperature_differences(ax: Axes, *, gamma: float) -> None:
    """Plot the largest probability difference between the focal map and its closest temperature."""
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
    """Return evenly spaced interior points of the simplex."""
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


_NOISE, _WIDTH, _EPOCHS = 0.2, 10, 500
_NUM_POINTS, _LEARNING_RATE = 500, 0.01  # not said in the reference
_GAMMA, _CALIBRATION_WEIGHT = 10.0, 1.5  # of the figure
_STEPS = 61
_APART = 0.1


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """Decision boundary of one network."""

    points: Float[ndarray, "N 2"]
    labels: Float[ndarray, " N"]
    across: Float[ndarray, " G"]
    up: Float[ndarray, " H"]
    probs: Float[ndarray, "H G"]  # probabilities of class 1, over the plane
    confidence: float  # mean over the points
    accuracy: float


def train_boundary(gamma: float, calibration_weight: float, *, seed: int = 0) -> Boundary:
    """Train a network with two hidden layers on 500 points of half-moons, by Adam on all of them at once."""
    try:
        from sklearn.datasets import make_moons
    except ModuleNotFoundError as error:
        raise InputError(
            "the half-moons need scikit-learn, which the extra `sklearn` brings: "
            "pip install 'calibrant[sklearn]'."
        ) from error

    points, labels = map(np.asarray, make_moons(_NUM_POINTS, noise=_NOISE, random_state=seed))
    inputs, targets = torch.from_numpy(points).float(), torch.from_numpy(labels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Linear(2, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 2)
        )
    optimiser = torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE)
    for _ in range(_EPOCHS):
        optimiser.zero_grad()
        logits = network(inputs)
        focal_calibration_loss(logits, targets, gamma=gamma, calibration_weight=calibration_weight).backward()
        optimiser.step()
    across, up = (np.linspace(each.min() - 0.4, each.max() + 0.4, _STEPS) for each in points.T)
    grid = torch.from_numpy(np.stack(np.meshgrid(across, up), axis=-1)).float()
    with torch.no_grad():
        probs = network(grid).softmax(-1)[..., 1].numpy()
        stated = network(inputs).softmax(-1).max(-1)
    return Boundary(
        points=points,
        labels=labels,
        across=across,
        up=up,
        probs=probs,
        confidence=stated.values.double().mean().item(),
        accuracy=(stated.indices == targets).double().mean().item(),
    )


def boundary_numbers(gamma: float, calibration_weight: float, *, seed: int) -> dict[str, float]:
    found = train_boundary(gamma, calibration_weight, seed=seed)
    shape = dict(zip(("length", "turning"), shape_of(found), strict=True))
    return {"seed": seed, **shape, "confidence": found.confidence, "accuracy": found.accuracy}


def shape_of(found: Boundary) -> tuple[float, float]:
    """Return length and total turning (radians, between points a tenth apart) of the line of even odds."""
    from contourpy import contour_generator

    lines = [np.asarray(line) for line in contour_generator(found.across, found.up, found.probs).lines(0.5)]
    lengths = [np.linalg.norm(np.diff(line, axis=0), axis=1).cumsum() for line in lines]
    total = sum(float(each[-1]) for each in lengths)
    return total, sum(_turning(line, along) for line, along in zip(lines, lengths, strict=True))


def _turning(line: Float[ndarray, "N 2"], along: Float[ndarray, " M"]) -> float:
    places, starts = np.arange(0, along[-1], _APART), np.concatenate([[0.0], along])
    steps = np.diff(np.stack([np.interp(places, starts, each) for each in line.T], axis=1), axis=0)
    return float(np.abs(np.diff(np.unwrap(np.arctan2(steps[:, 1], steps[:, 0])))).sum())


def boundary_figure() -> Figure:
    """Draw focal loss on the left, focal calibration loss on the right; probabilities, even odds, points."""
    with drawing_style():
        figure = Figure(figsize=(8.4, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw(train_boundary(_GAMMA, 0.0), f"focal, γ = {_GAMMA:g}", left)
        name = f"FCL, λ = {_CALIBRATION_WEIGHT:g}, γ = {_GAMMA:g}"
        drawn = _draw(train_boundary(_GAMMA, _CALIBRATION_WEIGHT), name, right)
        figure.colorbar(drawn, ax=figure.axes, label="probability of class 1")
    return figure


def _draw(found: Boundary, name: str, ax: Axes) -> QuadContourSet:
    plane = (found.across, found.up, found.probs)
    drawn = ax.contourf(*plane, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.75)
    ax.contour(*plane, levels=[0.5], colors="black", linewidths=1.2)
    for label, mark, colour in ((0, "o", VERMILLION), (1, "^", BLUE)):
        x, y = found.points[found.labels == label][::2].T  # every other one
        ax.plot(x, y, mark, color=colour, markersize=2.8, markeredgecolor="white", markeredgewidth=0.3)
    ax.set(xlabel="x1", ylabel="x2")
    how_sure = f"confidence {found.confidence:.2f}, accuracy {found.accuracy:.2f}"
    ax.set_title(f"{name}: {how_sure}", fontsize="medium")
    return drawn
