"""The figure of the linear-model study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibrant._math.means import mean_of
from calibrant.reports.figures import BLUE, GREY, VERMILLION, series
from calibrant.reports.figures.drawing import drawing_style
from papers.linear_model.measure import TEST_SEED, draw
from papers.linear_model.settings import GAMMAS, Setting
from papers.pages import loss_name

DASHES = ("-", "--", "-.", ":")


_POINTS = 300


def draw_figures(numbers: Mapping[str, Any]) -> list[Figure]:
    """Four panels: norms of logits and weights, confidence of mistakes, boundaries of the first seed."""
    runs = numbers["runs"]
    with drawing_style():
        figure = Figure(figsize=(8.4, 6.4), layout="constrained")
        axes = figure.subplots(2, 2)
        _norms(runs, "logit_norms", "norm of the training logits", axes[0][0])
        _norms(runs, "norms", "norm of the weights", axes[0][1])
        _mistakes(runs, axes[1][0])
        _boundaries(runs[0], Setting(**numbers["setting"]), axes[1][1])
    return [figure]


def _norms(runs: Sequence[Mapping[str, Any]], name: str, title: str, ax: Axes) -> None:
    for place, gamma in enumerate(GAMMAS):
        colour, _, _ = series(place)
        each = np.array([run["arms"][place][name] for run in runs])
        label, dashes = loss_name(gamma, "focal, "), DASHES[place]
        ax.plot(runs[0]["steps"], each.mean(axis=0), color=colour, linestyle=dashes, label=label)
        ax.fill_between(runs[0]["steps"], each.min(axis=0), each.max(axis=0), color=colour, alpha=0.15, lw=0)
    ax.set_xscale("log")
    ax.set_xlabel("steps of gradient descent")
    ax.set_ylabel(title)
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, fontsize="small")


def _mistakes(runs: Sequence[Mapping[str, Any]], ax: Axes) -> None:
    edges = np.linspace(0.5, 1, 26)
    for place, gamma in ((0, 0.0), (1, 1.0)):
        colour, _, _ = series(place)
        share = np.mean([run["arms"][place]["histogram"] for run in runs], axis=0)
        ax.stairs(100 * share, edges, color=colour, fill=True, alpha=0.35, label=loss_name(gamma, "focal, "))
        ax.stairs(100 * share, edges, color=colour, linestyle=DASHES[place])
    truth = mean_of([run["arms"][0]["mistakes_truth"] for run in runs]).value
    ax.axvline(truth / 100, color=GREY, linestyle=":", label="true probability there, mean")
    ax.set_xlabel("confidence of the mistakes")
    ax.set_ylabel("share of the mistakes (%)")
    ax.legend(frameon=False, fontsize="small", loc="upper left")


def _boundaries(run: Mapping[str, Any], setting: Setting, ax: Axes) -> None:
    sample = draw(setting, setting.num_test, run["seed"] + TEST_SEED)
    points, labels = sample.points[:_POINTS], sample.labels[:_POINTS] > 0.5
    for chosen, mark, colour, name in ((~labels, "o", BLUE, "label 0"), (labels, "^", VERMILLION, "label 1")):
        x, y = points[chosen].T
        ax.scatter(x, y, s=9, marker=mark, color=colour, alpha=0.5, linewidths=0, label=name)
    for place, gamma in enumerate(GAMMAS):
        first, second = run["arms"][place]["weights"]
        ends = 2.4 * np.array([-second, first]) / np.hypot(first, second)
        label, dashes = loss_name(gamma), DASHES[place]
        colour, _, _ = series(place)
        ax.plot([-ends[0], ends[0]], [-ends[1], ends[1]], linestyle=dashes, color=colour, label=label)
    ax.set_xlim(-2.4, 2.4)
    ax.set_ylim(-2.4, 2.4)
    ax.set_xlabel("x1")
    ax.set_ylabel("x2")
    ax.legend(frameon=True, fontsize="x-small", loc="lower left", ncols=3)
