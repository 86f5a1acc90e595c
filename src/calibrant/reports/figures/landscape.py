"""The objective of focal temperature scaling over exponent and temperature, drawn and in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from calibrant.calibrators.landscape import LEVEL, Landscape
from calibrant.reports.figures.drawing import OCHRE, VERMILLION, new_axes
from calibrant.reports.words import metric, percent

if TYPE_CHECKING:
    from jaxtyping import Float
    from matplotlib.axes import Axes
    from numpy import ndarray

_SMOOTH = {"nll", "brier"}
_DECADES = 4.0  # of what lies above the least; all below has one colour
_TICKS_OF_GAMMA = (-0.99, -0.9, -0.5, 0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)


def landscape_heat_map(landscape: Landscape, *, ax: Axes | None = None) -> Axes:
    """An objective as a heat map over exponent and temperature, with everything that was found on it.

    White: the ridge, the best T of each exponent. Dashed: the points of the search along a line through the
    two squares. The star is the point chosen, the dots are those chosen in resamples, the diamond at exponent
    0 is temperature scaling, and the cross the logits as they came. Likelihood loss and Brier score are shown
    as what lies above the least, calibration errors as they are; both on a logarithmic scale.

    Args:
        landscape: From :func:`calibrant.calibrators.objective_landscape`.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into.

    Example:
        >>> import torch
        >>> from calibrant.calibrators import objective_landscape
        >>> logits = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> labels = (3 * logits).softmax(1).multinomial(1, generator=torch.Generator().manual_seed(1))[:, 0]
        >>> landscape_heat_map(objective_landscape(logits, labels, num_resamples=5)).get_ylabel()
        'temperature T'
    """
    ax = new_axes(ax, width=6.4, height=5.2)
    title = objective_title(landscape)
    heights, norm = _heights(landscape)
    mesh = ax.pcolormesh(
        landscape.gammas,
        landscape.temperatures,
        heights.T,
        norm=norm,
        cmap="viridis",
        shading="gouraud",
        rasterized=True,
    )
    above = f"{title} above its least" if landscape.objective in _SMOOTH else title
    ax.figure.colorbar(mesh, ax=ax, label=above, extend="both", pad=0.02)
    _draw_paths(ax, landscape)
    _draw_points(ax, landscape)
    ax.set_xlim(landscape.gammas[0], landscape.gammas[-1])
    ax.set_ylim(landscape.temperatures[0], landscape.temperatures[-1])
    if landscape.is_logarithmic:
        _make_logarithmic(ax, landscape)
    ax.set_xlabel("exponent γ")
    ax.set_ylabel("temperature T")
    ax.set_title(
        f"{title} of focal temperature scaling, {landscape.num_samples:,} samples", fontsize="medium"
    )
    return ax


def landscape_sentence(landscape: Landscape) -> str:
    """What one sees, in a few sentences.

    Args:
        landscape: From :func:`calibrant.calibrators.objective_landscape`.

    Returns:
        Which point is best, what temperature scaling and the search along the line have instead, how far the
        choices of resamples spread, and whether they leave out exponent 0.

    Example:
        >>> import torch
        >>> from calibrant.calibrators import objective_landscape
        >>> logits = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> labels = (3 * logits).softmax(1).multinomial(1, generator=torch.Generator().manual_seed(1))[:, 0]
        >>> landscape_sentence(objective_landscape(logits, labels, num_resamples=5)).startswith("Least NLL ")
        True
    """
    title = objective_title(landscape)
    chosen, plain, line = landscape.chosen, landscape.plain, landscape.best_on_line
    low, high = landscape.gamma_interval
    cold, warm = landscape.temperature_interval
    zero = (
        "exponent 0, which is temperature scaling, lies among them: these samples do not call for a second "
        "parameter"
        if landscape.zero_is_within
        else "exponent 0, which is temperature scaling, lies outside"
    )
    return (
        f"Least {title} {chosen.value:.5f} at gamma = {chosen.gamma:.3g}, T = {chosen.temperature:.3g}; "
        f"temperature scaling has {plain.value:.5f} at T = {plain.temperature:.3g}, the search along the "
        f"line {line.value:.5f} at gamma = {line.gamma:.3g}, T = {line.temperature:.3g}. Of "
        f"{len(landscape.cloud)} refits on resamples {percent(LEVEL)} lie at gamma from {low:.3g} to "
        f"{high:.3g} and T from {cold:.3g} to {warm:.3g}; {zero}."
    )


def objective_title(landscape: Landscape) -> str:
    """The objective as people call it."""
    key = "classwise_ece" if landscape.objective == "classwise" else landscape.objective
    return metric(key, "multiclass").title


def _heights(landscape: Landscape) -> tuple[Float[ndarray, "G K"], LogNorm]:
    """What is coloured, and by which scale."""
    values = landscape.values
    if landscape.objective not in _SMOOTH:
        low = max(min(landscape.chosen.value, float(values.min())), 1e-5)
        return values.clip(low), LogNorm(low, max(2 * low, float(np.quantile(values, 0.95))))
    least = min(landscape.chosen.value, float(values.min()))
    above = values - least
    top = max(float(np.quantile(above, 0.95)), 1e-9)
    low = top / 10**_DECADES
    return above.clip(low), LogNorm(low, top)


def _draw_paths(ax: Axes, landscape: Landscape) -> None:
    """The ridge and the line."""
    line, ridge = landscape.line, landscape.ridge
    anchors = np.array([place[:2] for place in landscape.anchors])
    ax.plot(ridge.gammas, ridge.temperatures, color="white", linewidth=2, label="ridge: best T of each γ")
    ax.plot(
        line[:, 0],
        line[:, 1],
        color=VERMILLION,
        linewidth=1.6,
        linestyle="--",
        label="line search (3m points)",
    )
    ax.plot(anchors[:, 0], anchors[:, 1], color=VERMILLION, marker="s", markersize=5, linestyle="none")


def _draw_points(ax: Axes, landscape: Landscape) -> None:
    """The cloud below, and on it what was chosen."""
    cloud, chosen, plain = landscape.cloud, landscape.chosen, landscape.plain
    edge: dict[str, Any] = {"linestyle": "none", "markeredgecolor": "black"}
    ax.plot(
        cloud[:, 0],
        cloud[:, 1],
        marker="o",
        markersize=4,
        color="white",
        alpha=0.55,
        markeredgewidth=0.4,
        label=f"{len(cloud)} refits on resamples",
        **edge,
    )
    ax.plot(
        [plain.gamma],
        [plain.temperature],
        marker="D",
        markersize=8,
        color=OCHRE,
        label="temperature scaling",
        **edge,
    )
    ax.plot(
        [chosen.gamma], [chosen.temperature], marker="*", markersize=15, color="gold", label="chosen", **edge
    )
    ax.plot([0.0], [1.0], marker="X", markersize=8, color="lightgrey", label="as it came", **edge)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.12),
        ncols=3,
        fontsize="small",
        facecolor="#5f7f8f",
        framealpha=1,
        labelcolor="white",
        edgecolor="none",
    )


def _make_logarithmic(ax: Axes, landscape: Landscape) -> None:
    """Exponents by log(1 + gamma) and temperatures by their logarithm: powers of 1 + gamma stay straight."""
    ax.set_xscale("function", functions=(_log1p, np.expm1))
    shown = [tick for tick in _TICKS_OF_GAMMA if landscape.gammas[0] <= tick <= landscape.gammas[-1]]
    ax.xaxis.set_major_locator(FixedLocator(shown))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _log1p(gammas: Any) -> Any:
    """Also of what lies outside, which is not drawn."""
    return np.log1p(np.maximum(gammas, -0.9999))
