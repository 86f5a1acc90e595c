"""What a figure of files is asked for, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from calibrant.predictions import Predictions, load_predictions


def _silent(_stage: str, _share: float) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class FigureRequest:
    """Files by the name that each shall have, and the options; each figure uses those it declares."""

    files: Mapping[str, Path]
    load: Callable[[Path], Predictions] = load_predictions
    positive_class: str | None = None
    label: str | None = None
    bins: int = 15
    level: float = 0.95
    objective: str | None = None
    every_row: bool = False
    resamples: int | None = None
    seed: int = 0
    width: float | None = None
    """Inches, where a figure is laid out for its width and not made as wide afterwards."""
    tell: Callable[[str, float], None] = _silent


@dataclass(frozen=True)
class DrawnFigure:
    """A figure, what to say of it, and notes on the files."""

    figure: Figure
    said: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileFigure:
    """A figure that one command draws from a file, or from several that are laid over one another."""

    name: str
    summary: str
    draw_files: Callable[[FigureRequest], DrawnFigure]
    several: bool = False
    """Whether it takes more than one file."""
    options: frozenset[str]
    """The fields of the request that it heeds."""
    note: str = ""
