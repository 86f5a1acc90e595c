"""Draw the pictures of the explanation pages, the same bytes every time.

Run: ``python docs/explanation/draw_figures.py``, or with the names of some.
"""

from __future__ import annotations

import sys
from pathlib import Path

from calibrant.reports.figures.drawing import save_figure
from calibrant.reports.file_figures import FileFigure, figure_named

FIGURES = (
    "focal-decomposition",
    "confidence-regions",
    "temperature-bounds",
    "temperature-binary",
    "temperature-ternary",
    "gradient-factor",
    "focal-minimisers",
    "linear-model",
    "fcl-phi",
    "fcl-boundaries",
)


def main() -> None:
    """Each into its file."""
    for name in sys.argv[1:] or FIGURES:
        figure = figure_named(name)
        if not isinstance(figure, FileFigure):  # for which the command is given a file
            save_figure(figure.draw(), Path(__file__).parent / "figures" / f"{name}.svg")


if __name__ == "__main__":
    main()
