"""The figures by name: every one is drawn, and what they show is what was computed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from calibrant import theory
from calibrant.reports.file_figures import all_figures, figure_named
from calibrant_lab.figures import curves
from calibrant_lab.figures.curves import Boundary, shape_of, train_boundary
from calibrant_lab.figures.roster import FIGURES, TheoryFigure
from calibrant_lab.theory import temperature_fit


def drawn(panel: Callable[..., None], **settings: Any) -> Any:
    ax = Figure().add_subplot()
    panel(ax, **settings)
    return ax


def curve(ax: Any, label: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    (line,) = [each for each in ax.lines if each.get_label() == label]
    x, y = (np.asarray(each, dtype=float) for each in line.get_data())
    return x, y


@pytest.mark.parametrize(
    "figure",
    [
        pytest.param(each, marks=[pytest.mark.slow] if each.name == "temperature-ternary" else [])
        for each in FIGURES
        if isinstance(each, TheoryFigure)
    ],
    ids=lambda figure: figure.name,
)
def test_every_figure_is_drawn(figure, monkeypatch) -> None:
    monkeypatch.setattr(curves, "_CLASSES", curves._CLASSES[::6])
    monkeypatch.setattr(curves, "_EPOCHS", 5)
    found = figure.draw()
    for ax in found.axes[: len(figure.panels)]:
        assert len(ax.lines) + len(ax.collections) > 0
    found.draw_without_rendering()


def test_curves_are_the_numbers() -> None:
    x, y = curve(drawn(curves.focal_map_curves), "γ = 1")
    np.testing.assert_allclose(y, theory.focal_calibration_map(x, gamma=1.0).numpy(), atol=1e-15)
    bounds = drawn(curves.temperature_bound_curves)
    expected = theory.temperature_bounds(10, max_log_odds=10)
    assert curve(bounds, "upper, proved")[1][-1] == expected.upper
    assert curve(bounds, "lower, tight for log-odds up to 10")[1][-1] == expected.tight_lower


def test_gradient_curves_are_the_numbers() -> None:
    """The factor, by its formula; its dot lies where the factor is 1; the minimisers are the inverse map."""
    ax = drawn(curves.gradient_factors)
    p, factor = (each[1:-1] for each in curve(ax, "γ = 2"))
    np.testing.assert_allclose(factor, (1 - p) ** 2 - 2 * p * (1 - p) * np.log(p), atol=1e-12)
    (at,) = ax.lines[-1].get_xdata()
    assert theory.gradient_factor(at, gamma=7).item() == pytest.approx(1, abs=1e-12)
    truth, elicited = curve(drawn(curves.elicited_probabilities), "γ = 2")
    np.testing.assert_allclose(theory.focal_calibration_map(elicited, gamma=2), truth, atol=1e-12)
    ax = drawn(curves.entropy_shifts)  # it is lost among many classes only
    assert curve(ax, "2 classes")[1].min() > -1e-12
    assert curve(ax, "100 classes")[1].min() < -0.04


def test_fcl_curves_are_the_numbers() -> None:
    """Phi is zero at the dots; the elicited probability rises towards the truth and stays below it."""
    ax = drawn(curves.phi_curves)
    dots = [float(line.get_xdata()[0]) for line in ax.lines if len(line.get_xdata()) == 1]
    with_root = ((0, 2), (1, 0.5), (3, 0.5), (3, 1.5))
    for dot, (gamma, weight) in zip(dots, with_root, strict=True):
        phi = theory.focal_calibration_phi(dot, gamma=gamma, calibration_weight=weight).item()
        assert phi == pytest.approx(0, abs=1e-9)
    _, elicited = curve(drawn(curves.elicited_by_weight), "γ = 2")
    assert (np.diff(elicited) > 0).all()
    assert elicited[-1] == pytest.approx(0.77813, abs=5e-6)


def test_isolines_enclose_the_truth() -> None:
    """Of every loss the innermost line goes round (0.55, 0.30, 0.15), as all are proper."""
    truth = np.array([0.30 + 0.15 / 2, 0.15 * math.sqrt(3) / 2])
    for loss in ("brier", "cross-entropy", "proper-focal"):
        ax = drawn(curves.risk_isolines, loss=loss, gamma=3.0)
        path = ax.collections[0].get_paths()[0]
        assert path.contains_point(truth)


def test_arrows_point_to_the_map() -> None:
    quiver = drawn(curves.map_arrows, gamma=3.0).collections[0]
    starts = np.asarray(quiver.XY)  # pyright: ignore
    centre = np.array([0.5, math.sqrt(3) / 6])
    outwards = ((starts - centre) * np.stack([quiver.U, quiver.V], 1)).sum(1)  # pyright: ignore
    assert (outwards > -1e-12).all()


def note(name: str) -> str:
    (found,) = [figure.note for figure in FIGURES if figure.name == name]
    return found


def test_numbers_of_the_notes() -> None:
    factor = theory.gradient_factor(0.19, gamma=5).item()
    exact = theory.lambert_branches(0.19).lower
    assert note("gradient-factor").endswith(f"is {factor:.3f}; g(0.19, gamma) = 1 at gamma = {exact:.2f}.")
    half, three = (theory.closest_temperature(gamma).temperature for gamma in (0.5, 3))
    assert f"those are {half:.3f} and {three:.3f}" in note("temperature-binary")
    ten, twenty = (theory.temperature_bounds(4, max_log_odds=reach).tight_lower for reach in (10, 20))
    assert math.floor(1000 * ten) == 206  # published, cut off
    assert f"of 20 ({twenty:.3f})" in note("temperature-bounds")
    assert "gives 0.755 and 0.364" in note("temperature-binary")
    assert [round(1 / (0.95 * gamma + 0.85), 3) for gamma in (0.5, 2)] == [0.755, 0.364]
    assert "T = 0.81 and 0.46 are" in note("focal-arrows")
    assert [round(1 / (0.64 * gamma + 0.91), 2) for gamma in (0.5, 2)] == [0.81, 0.46]
    one, three = (theory.closest_temperature(gamma, 3).temperature for gamma in (1, 3))
    assert f"for 1 and 3 are {one:.3f} and {three:.3f}" in note("focal-arrows")
    logits = np.log([[0.98, 0.01, 0.01], [0.9, 0.05, 0.05], [0.5, 0.3, 0.2], [0.4, 0.4, 0.2]])
    scaled = torch.from_numpy(logits / theory.closest_temperature(3, 3).temperature).softmax(1)
    apart = (theory.focal_calibration_map_logits(logits, gamma=3).exp() - scaled).abs().amax(1)
    assert apart[:2].max() < 0.01 < 0.03 < apart[2:].max()
    assert "vanish at the corners" in note("temperature-differences")
    line = temperature_fit(3, num_gammas=10)
    assert f"{line.slope:.3f} gamma + {line.intercept:.2f}" in note("temperature-ternary")


def test_names_are_unique_and_found() -> None:
    figures = all_figures()
    assert len({figure.name for figure in figures}) == len(figures)
    assert figure_named("fcl-boundaries").name == "fcl-boundaries"
    with pytest.raises(ValueError, match="there is no figure 'focal-arow'; did you mean 'focal-arrows'"):
        figure_named("focal-arow")
    with pytest.raises(ValueError, match="did you mean 'landscape'"):
        figure_named("landscap")


def test_the_distance_makes_the_network_sure() -> None:
    """With gamma = 10 focal loss leaves it unsure, FCL does not; the boundary is much the same."""
    focal, both = (train_boundary(10.0, weight) for weight in (0.0, 1.5))
    assert focal.confidence < 0.8
    assert both.confidence == pytest.approx(both.accuracy, abs=0.04)
    assert both.accuracy >= focal.accuracy - 0.02
    assert focal.accuracy > 0.9
    disagree = ((focal.probs > 0.5) != (both.probs > 0.5)).mean()
    assert disagree < 0.1


def test_length_and_turning_of_a_circle() -> None:
    """A circle of radius 1/2: its boundary is π long and turns once around."""
    across, none = np.linspace(-1, 1, 101), np.zeros((0, 2))
    radius = np.hypot(*np.meshgrid(across, across))
    found = Boundary(
        points=none, labels=none[:, 0], across=across, up=across, probs=radius, confidence=0.0, accuracy=0.0
    )
    length, turning = shape_of(found)
    assert length == pytest.approx(np.pi, abs=0.01)
    assert 2 * np.pi - 0.4 < turning < 2 * np.pi + 0.01  # less what the first and the last step leave out
