"""Draw and describe the objective of focal temperature scaling over exponent and temperature."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy import ndarray
from torch import Tensor

from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant._math.text_form import nearest, plural
from calibrant.calibrators.fitting.objectives import OBJECTIVES, Objective
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import to_repair
from calibrant.reports.figures.drawing import OCHRE, VERMILLION, new_axes
from calibrant.reports.file_figures import DrawnFigure, FigureRequest
from calibrant.reports.words import metric, percent
from calibrant_lab.figures.landscape import LEVEL, Landscape, objective_landscape

_SIZE = (6.4, 5.8)
_SMOOTH = {"nll", "brier"}
_DECADES = 4.0  # excess over the least value; smaller ones share a colour
_TICKS_OF_GAMMA = (-0.99, -0.9, -0.5, 0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
_MOST_NAMED = 6  # labels


def draw_landscape(request: FigureRequest) -> DrawnFigure:
    wanted = (request.objective or "nll").replace("-", "_")
    check_choice("--objective", wanted, OBJECTIVES)
    (file,) = request.files.values()
    predictions = request.load(file)
    rows, words = _rows(predictions, request.every_row)
    landscape = objective_landscape(
        *_one_label(rows, file, request.label),
        weights=rows.weights,
        objective=cast("Objective", wanted),
        num_resamples=request.resamples,
        seed=request.seed,
        progress=lambda share: request.tell("fitting on resamples", share),
    )
    drawn = Figure(figsize=_SIZE, layout="constrained")
    landscape_heat_map(landscape, ax=drawn.add_subplot())
    said = f"On {words}. {landscape_sentence(landscape)}\n{landscape_key(landscape)}"
    return DrawnFigure(drawn, said, (*predictions.notes, *landscape.notes))


def _rows(predictions: Predictions, every_row: bool) -> tuple[Predictions, str]:
    """Return the calibration split, or else all rows, and its description."""
    if predictions.kind == "top_label":  # log-odds, and whether they were right
        predictions = to_repair(predictions)
    if every_row or not predictions.has_calibration:
        why = "" if every_row else "; the file has no calibration split"
        return predictions, f"all {predictions.num_samples:,} samples{why}"
    rows = predictions.calibration
    return rows, f"the {rows.num_samples:,} samples of the calibration split"


def _one_label(rows: Predictions, file: Path, label: str | None) -> tuple[Tensor, Tensor]:
    """Return scores and labels; for a multilabel file, those of the label given by name or number."""
    if rows.labels is None:
        raise InputError(f"{file} has no labels; the objective needs them.")
    if rows.kind == "multilabel":
        column = _column(rows, file, label)
        return rows.scores[:, column], rows.labels[:, column]
    if label is not None:
        raise InputError(f"--label is for multilabel files; {file} is {rows.kind}.")
    return rows.scores, rows.labels


def _column(rows: Predictions, file: Path, label: str | None) -> int:
    count, names = rows.num_classes or 0, list(rows.class_names or ())
    if label is None:
        known = f"{', '.join(names)}, or " if names else ""
        raise InputError(
            f"{file} has {count} labels per sample; choose one by --label: {known}0 to {count - 1}."
        )
    if label in names:
        return names.index(label)
    if label.isdecimal() and int(label) < count:
        return int(label)
    if names and not label.isdecimal():
        raise InputError(f"{file} has no label {label!r}{nearest(label, names)}")
    shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    named = f" ({shown})" if names else ""
    raise InputError(f"{file} has no label {label!r}; there are {count}, from 0 to {count - 1}{named}.")


def landscape_heat_map(landscape: Landscape, *, ax: Axes | None = None) -> Axes:
    """Draw the objective as a heat map over exponent and temperature, with its minima.

    The legend names the marks, and :func:`landscape_key` explains them. Likelihood loss and Brier score are
    shown as the excess over the minimum, calibration errors unchanged; both on a logarithmic scale. If the
    samples do not determine exponent and temperature, the title adds a line.

    Args:
        landscape: From :func:`calibrant_lab.figures.objective_landscape`.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into.

    Example:
        >>> import torch
        >>> from calibrant_lab.figures import objective_landscape
        >>> logits = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> labels = (3 * logits).softmax(1).multinomial(1, generator=torch.Generator().manual_seed(1))[:, 0]
        >>> landscape_heat_map(objective_landscape(logits, labels, num_resamples=5)).get_ylabel()
        'temperature T'
    """
    ax = new_axes(ax, width=_SIZE[0], height=_SIZE[1])
    title = _title(landscape)
    heights, norm = _heights(landscape)
    plane = landscape.gammas, landscape.temperatures, heights.T
    mesh = ax.pcolormesh(*plane, norm=norm, cmap="viridis", shading="gouraud", rasterized=True)
    above = f"{title} above its least" if landscape.objective in _SMOOTH else title
    ax.figure.colorbar(mesh, ax=ax, label=above, extend="both", pad=0.02)
    _draw_paths(ax, landscape)
    _draw_points(ax, landscape)
    gammas, temperatures = landscape.gammas[[0, -1]], landscape.temperatures[[0, -1]]
    ax.set(xlim=gammas, ylim=temperatures, xlabel="exponent γ", ylabel="temperature T")
    if landscape.is_logarithmic:
        _make_logarithmic(ax, landscape)
    counted = plural(landscape.num_samples, "sample")
    loose = "\nThese samples do not fix γ and T" if landscape.doubts else ""
    headed = title[:1].upper() + title[1:]
    ax.set_title(f"{headed} of focal temperature scaling, {counted}{loose}", fontsize="medium", pad=10)
    return ax


def landscape_sentence(landscape: Landscape) -> str:
    """Describe the landscape in a few sentences.

    Args:
        landscape: From :func:`calibrant_lab.figures.objective_landscape`.

    Returns:
        Which point is best, what temperature scaling and the search along the line have instead, and how far
        the choices of resamples spread. Then whether they leave out exponent 0, or why these samples do not
        fix the two parameters.

    Example:
        >>> import torch
        >>> from calibrant_lab.figures import objective_landscape
        >>> logits = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> labels = (3 * logits).softmax(1).multinomial(1, generator=torch.Generator().manual_seed(1))[:, 0]
        >>> landscape_sentence(objective_landscape(logits, labels, num_resamples=5))[:15]
        'Least log loss '
    """
    title = _title(landscape)
    chosen, plain, line = landscape.chosen, landscape.plain, landscape.best_on_line
    low, high = landscape.gamma_interval
    cold, warm = landscape.temperature_interval
    return (
        f"Least {title} {chosen.value:.5f} at gamma = {chosen.gamma:.3g}, T = {_short(chosen.temperature)}; "
        f"temperature scaling has {plain.value:.5f} at T = {_short(plain.temperature)}, the search along the "
        f"line {line.value:.5f} at gamma = {line.gamma:.3g}, T = {_short(line.temperature)}. "
        f"{percent(LEVEL)} of {len(landscape.cloud)} refits on resamples lie at gamma from {low:.3g} to "
        f"{high:.3g} and T from {_short(cold)} to {_short(warm)}. {_conclusion(landscape)}"
    )


def _short(temperature: float) -> str:
    return f"{temperature:.3g}" if temperature < 1000 else f"{temperature:,.0f}"


def _conclusion(landscape: Landscape) -> str:
    """Tell whether the samples call for a second parameter, if they can decide."""
    zero = "Exponent 0, which is temperature scaling, lies"
    among = f"{zero} among these: the samples do not call for a second parameter."
    found = among if landscape.zero_is_within else f"{zero} outside."
    if landscape.trouble:
        found = "Where the points lie says nothing of other samples."
    doubts = "; ".join(landscape.doubts)
    return f"These samples do not fix gamma and T: {doubts}. {found}" if doubts else found


def landscape_key(landscape: Landscape) -> str:
    """Explain the picture to new readers.

    Args:
        landscape: From :func:`calibrant_lab.figures.objective_landscape`.

    Returns:
        What the colours, lines and marks are.

    Example:
        >>> import torch
        >>> from calibrant_lab.figures import objective_landscape
        >>> logits = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> labels = (3 * logits).softmax(1).multinomial(1, generator=torch.Generator().manual_seed(1))[:, 0]
        >>> landscape_key(objective_landscape(logits, labels, num_resamples=5)).startswith("How to read it: ")
        True
    """
    title = _title(landscape)
    return (
        f"How to read it: the darker, the lower the {title}. White line: the ridge, the best T at each "
        "gamma. Orange: the search along a line. It finds the best of T = 0.1, 0.2, ..., 10 at gamma = 0 "
        f"and 1 (squares), then tries {len(landscape.line)} points of the line through the two (dashed). "
        "Pale dots: what is chosen on resamples, the same number of rows drawn with replacement; the farther "
        "they spread, the less the samples tell. Star: what is chosen on all rows; diamond: temperature "
        "scaling; cross: the logits as they came."
    )


def _title(landscape: Landscape) -> str:
    key = "classwise_ece" if landscape.objective == "classwise" else landscape.objective
    title = metric(key, "multiclass").title
    return title if title[1:2].isupper() or title.startswith("sm") else title[:1].lower() + title[1:]


def _heights(landscape: Landscape) -> tuple[Float[ndarray, "G K"], LogNorm]:
    values = landscape.values
    least = min(landscape.chosen.value, float(values.min()))
    if landscape.objective not in _SMOOTH:
        low = max(least, 1e-5)
        return values.clip(low), LogNorm(low, max(2 * low, float(np.quantile(values, 0.95))))
    above = values - least
    top = max(float(np.quantile(above, 0.95)), 1e-9)
    low = top / 10**_DECADES
    return above.clip(low), LogNorm(low, top)


def _draw_paths(ax: Axes, landscape: Landscape) -> None:
    line, ridge = landscape.line, landscape.ridge
    anchors = np.array([place[:2] for place in landscape.anchors])
    ax.plot(ridge.gammas, ridge.temperatures, color="white", linewidth=2, label="ridge: best T at each γ")
    tried = f"line search: the {len(line)} points it tries"
    ax.plot(*line.T, color=VERMILLION, linewidth=1.6, linestyle="--", label=tried)
    look: dict[str, Any] = {"color": VERMILLION, "ms": 12, "mfc": "none", "mew": 2}  # a mark may lie inside
    ax.plot(*anchors.T, "s", label="its start: best T at γ = 0 and 1", **look)


def _draw_points(ax: Axes, landscape: Landscape) -> None:
    cloud, chosen, plain = landscape.cloud, landscape.chosen, landscape.plain
    edge: dict[str, Any] = {"linestyle": "none", "markeredgecolor": "black"}
    whole: dict[str, Any] = {**edge, "clip_on": False}  # also where it lies on the edge of the picture
    label = f"chosen on {len(cloud)} resamples of the rows"
    ax.plot(*cloud.T, "o", ms=4, color="white", alpha=0.55, mew=0.4, label=label, **edge)
    label = "temperature scaling (γ = 0)"
    ax.plot([plain.gamma], [plain.temperature], "D", ms=8, color=OCHRE, label=label, **whole)
    label = "chosen on all rows"
    ax.plot([chosen.gamma], [chosen.temperature], "*", ms=15, color="gold", label=label, **whole)
    ax.plot([0.0], [1.0], marker="X", markersize=8, color="lightgrey", label="logits as they came", **whole)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.12),
        ncols=2,
        fontsize="small",
        facecolor="#31464f",  # white and orange are seen on it
        framealpha=1,
        labelcolor="white",
        edgecolor="none",
    )


def _make_logarithmic(ax: Axes, landscape: Landscape) -> None:
    """Plot log(1 + gamma) and log temperatures: powers of 1 + gamma stay straight."""
    # Defined outside the domain, too, where nothing is drawn.
    ax.set_xscale("function", functions=(lambda gamma: np.log1p(np.maximum(gamma, -0.9999)), np.expm1))
    shown = [tick for tick in _TICKS_OF_GAMMA if landscape.gammas[0] <= tick <= landscape.gammas[-1]]
    ax.xaxis.set_major_locator(FixedLocator(shown))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
