"""Colours, axes and legends that the figures share."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy import ndarray

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant._math.shapes import Float

T = TypeVar("T")

BLUE, VERMILLION, GREEN, PINK, OCHRE, SKY = "#0072b2", "#d55e00", "#009e73", "#b8609a", "#a87400", "#3d8fc4"
GREY = "#808080"  # bands and guides; readable on white and on black
SERIES = (BLUE, VERMILLION, GREEN, PINK, OCHRE, SKY)
Dashes = Literal["-", "--", ":"]
DASHES: tuple[Dashes, ...] = ("-", "--", ":")
DASHED = (0, (4, 3))  # guides
ENDINGS: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".png": {}, ".pdf": {"CreationDate": None}}
"""File extensions of figures, with the metadata that keeps dates out of them."""
SHAPES = ("o", "s", "D", "^", "v", "P", "X")


def series(position: int) -> tuple[str, str, Dashes]:
    """Colour, shape and dashes of the curve at ``position``; no two of the first 42 are alike."""
    return SERIES[position % len(SERIES)], SHAPES[position % len(SHAPES)], DASHES[position // 6 % 3]


@contextmanager
def drawing_style() -> Generator[None]:
    """Use matplotlib's defaults instead of the user's style, and keep text as text."""
    style: dict[Any, Any] = {
        key: value for key, value in matplotlib.rcParamsDefault.items() if key != "backend"
    }
    style |= {"svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 9, "axes.linewidth": 0.6}
    with matplotlib.rc_context(style):
        yield


def save_figure(figure: Figure, path: Path, *, width: float | None = None) -> None:
    """Write a figure, whole or not at all; the same figure gives the same bytes.

    ``width`` is in inches; the height goes with it, and letters keep their size.
    """
    ending = path.suffix.lower()
    if width is not None:
        _resize(figure, width)
    with drawing_style(), matplotlib.rc_context({"svg.hashsalt": path.stem}), atomic_write(path) as temporary:
        figure.savefig(temporary, format=ending[1:], dpi=150, metadata=ENDINGS[ending])


def _resize(figure: Figure, width: float) -> None:
    """Set the width, and the height in proportion; margins keep their size in inches."""
    old_width, old_height = figure.get_size_inches().tolist()
    height = old_height * width / old_width
    figure.set_size_inches(width, height)
    if figure.get_layout_engine() is not None:
        return
    places = {ax: ax.get_position(original=True) for ax in figure.axes}
    across = _keeping_margins([(each.x0, each.x1) for each in places.values()], old_width, width)
    up = _keeping_margins([(each.y0, each.y1) for each in places.values()], old_height, height)
    for ax, (x0, x1), (y0, y1) in zip(places, across, up, strict=True):
        ax.set_position((x0, y0, x1 - x0, y1 - y0))


def _keeping_margins(
    spans: Sequence[tuple[float, float]], old: float, new: float
) -> list[tuple[float, float]]:
    """Shares of a length that keep their distance, in inches, from both of its ends."""
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    before, after = first * old / new, 1 - (1 - last) * old / new
    scale = (after - before) / (last - first)
    return [(before + (a - first) * scale, before + (b - first) * scale) for a, b in spans]


def by_name(curves: Mapping[str, T] | T, kind: type[T]) -> dict[str, T]:
    """Curves by name; a single curve has the empty name."""
    named: Mapping[str, T] = {"": curves} if isinstance(curves, kind) else cast("Mapping[str, T]", curves)
    if not named:
        raise InputError("`curves` must hold at least one curve; got none.")
    return dict(named)


def new_axes(ax: Axes | None, *, width: float = 4.2, height: float = 3.4) -> Axes:
    """The given axes, or new ones in a figure outside pyplot."""
    return Figure(figsize=(width, height), layout="constrained").add_subplot() if ax is None else ax


def finish(
    ax: Axes,
    *,
    legend: Literal["best", "upper right", "lower right"] = "best",
    size: str = "small",
    columns: int = 1,
) -> Axes:
    """Remove the frame's upper and right side, and add a legend."""
    open_frame(ax)
    ax.legend(frameon=False, fontsize=size, loc=legend, ncols=columns)
    return ax


def open_frame(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def unit_square(ax: Axes, across: str, up: str) -> None:
    """Set both axes to 0 to 1 with equal ticks, and label them."""
    ticks = np.linspace(0, 1, 6)
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks, aspect="equal", xlabel=across, ylabel=up)
    open_frame(ax)


def diagonal(ax: Axes, label: str | None = None) -> Line2D:
    """Draw a dashed diagonal across the range of the x axis."""
    ends = ax.get_xlim()
    (line,) = ax.plot(ends, ends, color=GREY, linestyle=DASHED, linewidth=1, label=label)
    return line


def noise_key(name: str = "band: noise") -> tuple[str, Artist]:
    return name, Patch(color=GREY, alpha=0.3, linewidth=0)


def add_curve(
    ax: Axes,
    position: int,
    x: Any,
    y: Any,
    label: str | None = None,
    *,
    band: tuple[Any, Any] | None = None,
    **style: Any,
) -> Line2D:
    """Draw a curve in the colour and dashes of ``position``, with its band from low to high."""
    colour, _, dashes = series(position)
    if band is not None:
        ax.fill_between(x, *band, color=colour, alpha=0.15, linewidth=0)
    (line,) = ax.plot(x, y, color=colour, linestyle=dashes, linewidth=1.4, label=label, **style)
    return line


def floats(values: Iterable[float | None]) -> Float[ndarray, " B"]:
    """Missing values as NaN, which matplotlib leaves out."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def add_legend(ax: Axes, entries: Sequence[tuple[str, Artist]], *, shown: bool) -> Axes:
    """A legend within the diagram, if it is to be shown."""
    if shown:
        named_legend(ax, entries, loc="best")
    return ax


def named_legend(where: Axes | Figure, entries: Sequence[tuple[str, Artist]], **style: Any) -> Legend:
    """A legend with literal names: no mathematics, none dropped for its underscore."""
    artists: Any = [artist for _, artist in entries]
    box = where.legend(artists, ["-"] * len(entries), frameon=False, fontsize="small", **style)
    for text, (name, _) in zip(box.get_texts(), entries, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
    return box


def legend_above(ax: Axes, width: float) -> float:
    """Move a legend to the top of its figure, in as many columns as fit, and return its height in inches."""
    old, figure = ax.get_legend(), cast("Figure", ax.get_figure(root=True))
    if old is None:
        return 0.0
    names = [text.get_text() for text in old.get_texts()]
    entries = list(zip(names, cast("list[Artist]", old.legend_handles), strict=True))
    old.remove()
    for columns in range(min(len(entries), 4), 0, -1):
        box = named_legend(
            figure, entries, ncols=columns, loc="upper left", borderaxespad=0.2, columnspacing=1.2
        )
        extent = box.get_window_extent()
        if columns == 1 or extent.width / figure.dpi <= width - 0.1:
            return extent.height / figure.dpi
        box.remove()
    raise AssertionError
