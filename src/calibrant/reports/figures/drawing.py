"""Colours, axes and legends that the figures share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from jaxtyping import Float
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from numpy import ndarray

BLUE, VERMILLION, GREEN, PINK, OCHRE, SKY = "#0072b2", "#d55e00", "#009e73", "#b8609a", "#a87400", "#3d8fc4"
GREY = "#808080"  # bands and guides; readable on white and on black
SERIES = (BLUE, VERMILLION, GREEN, PINK, OCHRE, SKY)
Dashes = Literal["-", "--", ":"]
DASHES: tuple[Dashes, ...] = ("-", "--", ":")
DASHED = (0, (4, 3))  # guides
SHAPES = ("o", "s", "D", "^", "v", "P", "X")


def series(position: int) -> tuple[str, str, Dashes]:
    """Colour, shape and dashes of the curve at ``position``; no two of the first 42 are alike."""
    return SERIES[position % len(SERIES)], SHAPES[position % len(SHAPES)], DASHES[position // 6 % 3]


def new_axes(ax: Axes | None, *, width: float, height: float) -> Axes:
    """The axes given, or new ones in a figure that nothing else knows of."""
    return Figure(figsize=(width, height), layout="constrained").add_subplot() if ax is None else ax


def finish(
    ax: Axes,
    *,
    legend: Literal["best", "upper right", "lower right"] = "best",
    size: str = "small",
    columns: int = 1,
) -> Axes:
    """Without the frame's upper and right side, and with a legend."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=size, loc=legend, ncols=columns)
    return ax


def floats(values: Iterable[float | None]) -> Float[ndarray, " B"]:
    """Missing values as NaN, which matplotlib leaves out."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def add_legend(ax: Axes, entries: Sequence[tuple[str, Artist]]) -> None:
    """A legend whose names are shown as they are: no mathematics, and none left out for its underscore."""
    box = ax.legend(
        [artist for _, artist in entries], ["-"] * len(entries), frameon=False, fontsize="small", loc="best"
    )
    for text, (name, _) in zip(box.get_texts(), entries, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
