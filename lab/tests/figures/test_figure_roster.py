"""The figures that one command draws: names, and those that need a small experiment."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable

import pytest

from calibrant.reports.file_figures import all_figures, figure_named
from calibrant_lab.figures import curves
from calibrant_lab.figures.curves import Boundary, train_boundary


@pytest.fixture(scope="module")
def trained() -> Callable[..., Boundary]:
    """The networks that are drawn, each trained once."""
    return functools.cache(train_boundary)


def test_names_are_unique_and_found() -> None:
    """And a wrong one is told the nearest."""
    figures = all_figures()
    assert len({figure.name for figure in figures}) == len(figures)
    assert figure_named("fcl-boundaries").name == "fcl-boundaries"
    with pytest.raises(ValueError, match="there is no figure 'focal-arow'; did you mean 'focal-arrows'"):
        figure_named("focal-arow")
    with pytest.raises(ValueError, match="did you mean 'landscape'"):
        figure_named("landscap")


def test_experiments_are_drawn(trained, monkeypatch) -> None:
    """Every panel has something in it, and the figure can be written."""
    monkeypatch.setattr(curves, "train_boundary", trained)
    drawn = figure_named("fcl-boundaries").draw()
    assert all(ax.has_data() for ax in drawn.axes)
    written = io.BytesIO()
    drawn.savefig(written, format="svg")
    assert written.getbuffer().nbytes > 5000


def test_the_distance_makes_the_network_sure(trained) -> None:
    """With gamma = 10 focal loss leaves it unsure, FCL does not; the boundary is much the same."""
    focal, both = (trained(10.0, weight) for weight in (0.0, 1.5))
    assert focal.confidence < 0.8
    assert both.confidence == pytest.approx(both.accuracy, abs=0.04)
    assert both.accuracy >= focal.accuracy - 0.02
    assert focal.accuracy > 0.9
    again = train_boundary(10, 1.5)
    assert (again.probs == both.probs).all()
    disagree = ((focal.probs > 0.5) != (both.probs > 0.5)).mean()
    assert disagree < 0.1
