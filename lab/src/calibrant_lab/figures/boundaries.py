"""Focal loss against focal calibration loss on two classes that overlap: what a small network learns.

The experiment of the focal calibration paper (2025), appendix A.11 and figure 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from numpy import ndarray
from torch import nn

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.losses import focal_calibration_loss
from calibrant.reports.figures.drawing import BLUE, VERMILLION, drawing_style

_NOISE, _WIDTH, _EPOCHS = 0.2, 10, 500
_NUM_POINTS, _LEARNING_RATE = 500, 0.01  # not said in the reference
_GAMMA, _CALIBRATION_WEIGHT = 10.0, 1.5  # of the figure
_STEPS = 61
_APART = 0.1


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """What one network has learnt."""

    points: Float[ndarray, "N 2"]
    labels: Float[ndarray, " N"]
    across: Float[ndarray, " G"]
    up: Float[ndarray, " H"]
    probs: Float[ndarray, "H G"]  # probabilities of class 1, over the plane
    confidence: float  # mean over the points
    accuracy: float


def train_boundary(gamma: float, calibration_weight: float, *, seed: int = 0) -> Boundary:
    """Train a network with two hidden layers on two half-moons.

    The reference names "two classes, noise 0.2", but no number of points, learning rate or batch size. Here:
    500 points on half-moons, Adam with 0.01 on all of them at once.
    """
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
        loss = focal_calibration_loss(
            network(inputs), targets, gamma=gamma, calibration_weight=calibration_weight
        )
        loss.backward()
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
    """Length and turning of the boundary that a network learns, its mean confidence and its accuracy."""
    found = train_boundary(gamma, calibration_weight, seed=seed)
    length, turning = shape_of(found)
    kept = {"confidence": found.confidence, "accuracy": found.accuracy}
    return {"seed": seed, "length": length, "turning": turning, **kept}


def shape_of(found: Boundary) -> tuple[float, float]:
    """Length of the line of even odds in the units of the points, and the sum of its turns in radians.

    Turns are those between points on the line that are a tenth of a unit apart: between nearer ones they are
    those of the grid.
    """
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
