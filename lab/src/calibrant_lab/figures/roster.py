"""The laboratory's figures by name: panels of the papers' theory, or of a file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from calibrant._math.text_form import parse_call
from calibrant.reports.figures.drawing import drawing_style
from calibrant.reports.file_figures import DrawnFigure, FigureRequest, FileFigure
from calibrant_lab.figures import curves

_THEORY = Path(__file__).with_name("theory.toml")


@dataclass(frozen=True, kw_only=True)
class TheoryFigure:
    """A figure that one command draws: an entry of ``theory.toml``."""

    name: str
    summary: str
    panels: Sequence[str] = ()
    whole: str = ""
    note: str = ""

    def draw(self) -> Figure:
        if self.whole:
            return getattr(curves, self.whole)()
        rows = -(-len(self.panels) // 2)
        with drawing_style():
            figure = Figure(figsize=(8.4, 3.6 * rows), layout="constrained")
            for place, call in enumerate(self.panels, 1):
                name, settings = parse_call(call)
                panel: Callable[..., None] = getattr(curves, name)
                panel(figure.add_subplot(rows, 2, place), **settings)
        return figure


def _draw_landscape(request: FigureRequest) -> DrawnFigure:
    from calibrant_lab.figures.landscape_heat_map import draw_landscape  # its searches take time to import

    return draw_landscape(request)


FIGURES = (
    *(TheoryFigure(**each) for each in tomllib.loads(_THEORY.read_text(encoding="utf-8"))["figure"]),
    FileFigure(
        name="landscape",
        summary="The objective of focal temperature scaling over exponent and temperature, for a FILE of "
        "predictions.",
        draw_files=_draw_landscape,
        options=frozenset({"objective", "label", "every_row", "resamples", "seed"}),
    ),
)
