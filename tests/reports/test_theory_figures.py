"""The figures of the theory: every one is drawn, and what they show is what was computed."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

from calibrant import theory
from calibrant.reports.figures import theory_maps, theory_simplex
from calibrant.reports.figures.theory_roster import FIGURES, TheoryFigure, theory_figure_named


@pytest.mark.parametrize(
    "figure",
    [
        pytest.param(each, marks=[pytest.mark.slow] if each.name == "temperature-ternary" else [])
        for each in FIGURES
    ],
    ids=lambda figure: figure.name,
)
def test_every_figure_is_drawn(figure: TheoryFigure) -> None:
    """Each panel has something in it, and the figure can be written."""
    drawn = figure.draw()
    for ax in drawn.axes[: len(figure.panels)]:
        assert len(ax.lines) + len(ax.collections) > 0
    written = io.BytesIO()
    drawn.savefig(written, format="svg")
    assert written.getbuffer().nbytes > 5000


def test_names_are_unique_and_found() -> None:
    """And a wrong one is told the nearest."""
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)
    assert theory_figure_named("focal-arrows").name == "focal-arrows"
    with pytest.raises(ValueError, match="there is no figure 'focal-arow'; did you mean 'focal-arrows'"):
        theory_figure_named("focal-arow")


def test_curves_are_the_numbers() -> None:
    """The map's curve, the bounds and the region are those of the functions."""
    lines = {line.get_label(): line for line in theory_maps.focal_map_curves(gammas=(1.0,)).lines}
    x, y = (np.asarray(each, dtype=float) for each in lines["γ = 1"].get_data())
    np.testing.assert_allclose(y, theory.focal_calibration_map(x, gamma=1.0).numpy(), atol=1e-15)
    bounds = {line.get_label(): line for line in theory_maps.temperature_bound_curves(max_gamma=4).lines}
    expected = theory.temperature_bounds(4, max_log_odds=10)
    assert bounds["proved, upper"].get_ydata()[-1] == expected.upper
    assert bounds["up to 10, lower"].get_ydata()[-1] == expected.tight_lower


def test_isolines_enclose_the_truth() -> None:
    """Of every loss the innermost line goes round (0.55, 0.30, 0.15), as all are proper."""
    truth = np.array([0.30 + 0.15 / 2, 0.15 * math.sqrt(3) / 2])
    for loss in ("brier", "cross-entropy", "proper-focal"):
        ax = theory_simplex.risk_isolines(loss=loss, gamma=3.0)  # pyright: ignore
        path = ax.collections[0].get_paths()[0]
        assert path.contains_point(truth)


def test_arrows_point_to_the_map() -> None:
    """Each arrow ends where the map takes its point."""
    quiver = theory_simplex.map_arrows(gamma=3.0).collections[0]
    starts = np.asarray(quiver.XY)  # pyright: ignore
    centre = np.array([0.5, math.sqrt(3) / 6])
    outwards = ((starts - centre) * np.stack([quiver.U, quiver.V], 1)).sum(1)  # pyright: ignore
    assert (outwards > -1e-12).all()
