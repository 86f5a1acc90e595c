"""The landscape as a picture and in words."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
import torch

from calibrant.calibrators import Landscape, Place, TemperatureRidge
from calibrant.reports.figures.landscape import landscape_heat_map, landscape_sentence


def made(**changes: Any) -> Landscape:
    """A landscape with a valley along T = 1 + gamma, written down by hand."""
    gammas, temperatures = np.linspace(-0.5, 5, 12), np.linspace(0.3, 7, 15)
    valley = 0.4 + (np.log(temperatures) - np.log1p(gammas)[:, None]) ** 2
    landscape = Landscape(
        objective="nll",
        num_samples=1234,
        gammas=gammas,
        temperatures=temperatures,
        values=valley,
        ridge=TemperatureRidge(gammas=gammas, temperatures=1 + gammas, values=np.full(12, 0.4)),
        line=np.stack([gammas, 1 + gammas], axis=1),
        anchors=(Place(0.0, 1.0, 0.41), Place(1.0, 2.0, 0.41)),
        best_on_line=Place(0.7, 1.7, 0.4051),
        plain=Place(0.0, 1.0, 0.41),
        chosen=Place(0.8, 1.8, 0.4),
        cloud=np.stack([np.linspace(0.3, 4.3, 41), np.linspace(1.3, 5.3, 41)], axis=1),
        notes=(),
    )
    return dataclasses.replace(landscape, **changes)


def written(ax: Any) -> Any:
    """The figure, to be written."""
    return ax.figure


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"objective": "ece"},
        {"objective": "classwise"},
        {"gammas": np.geomspace(0.5, 40, 12) - 1, "temperatures": np.geomspace(0.1, 60, 15)},
        {"values": np.full((12, 15), 0.4)},
        {"objective": "ece", "values": np.zeros((12, 15))},
    ],
    ids=["nll", "ece", "classwise", "logarithmic", "flat", "all zero"],
)
@pytest.mark.parametrize("ending", ["svg", "png"])
def test_it_is_drawn(changes: dict[str, Any], ending: str) -> None:
    """Heat map, ridge, line and anchors, cloud, temperature scaling, the chosen point; and it is written."""
    landscape = made(**changes)
    ax = landscape_heat_map(landscape)
    assert len(ax.collections) == 1
    drawn = [np.column_stack(line.get_data()) for line in ax.lines]
    for wanted in (landscape.cloud, landscape.line, [[0.8, 1.8]], [[0.0, 1.0]]):
        assert any(np.shape(each) == np.shape(wanted) and np.allclose(each, wanted) for each in drawn)
    buffer = io.BytesIO()
    written(ax).savefig(buffer, format=ending)
    assert buffer.getbuffer().nbytes > 5000


def test_colours_say_where_the_objective_is_low() -> None:
    """Likelihood above its least: the valley has the lowest colour, and nothing is hidden by the scale."""
    ax = landscape_heat_map(made())
    heights = np.asarray(ax.collections[0].get_array()).reshape(15, 12)
    valley = np.abs(np.log(np.linspace(0.3, 7, 15))[:, None] - np.log1p(np.linspace(-0.5, 5, 12)))
    assert heights[valley < 0.02].max() < heights[valley > 0.5].min()
    assert (heights > 0).all()


def test_axes_are_the_papers() -> None:
    """Exponent across, temperature upwards; linear while exponents are small."""
    assert landscape_heat_map(made()).get_yscale() == "linear"
    large = made(gammas=np.geomspace(0.5, 40, 12) - 1, temperatures=np.geomspace(0.1, 60, 15))
    assert landscape_heat_map(large).get_yscale() == "log"


def test_sentence_tells_what_one_sees() -> None:
    """The points with their values, the spread, and that exponent 0 lies outside."""
    said = landscape_sentence(made())
    assert said.startswith(
        "Least NLL 0.40000 at gamma = 0.8, T = 1.8; temperature scaling has 0.41000 at T = 1, the search "
        "along the line 0.40510 at gamma = 0.7, T = 1.7."
    )
    assert "41 refits on resamples 95 % lie at gamma from 0.4 to 4.2 and T from 1.4 to 5.2" in said
    assert said.endswith("exponent 0, which is temperature scaling, lies outside.")


def test_sentence_tells_where_the_exponent_is_not_needed() -> None:
    """A cloud around 0 says so."""
    said = landscape_sentence(made(cloud=np.stack([np.linspace(-0.5, 1, 41), np.linspace(1, 2, 41)], axis=1)))
    assert "lies among them" in said
    assert "do not call for a second parameter" in said


def test_drawing_real_landscapes() -> None:
    """From samples to picture, by every kind of objective."""
    from calibrant.calibrators import objective_landscape

    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(80, 4, generator=generator)
    labels = torch.multinomial(torch.softmax(logits / 2, dim=1), 1, generator=generator)[:, 0]
    for objective in ("nll", "adaptive_ece"):
        ax = landscape_heat_map(objective_landscape(logits, labels, objective=objective, num_resamples=3))
        written(ax).savefig(io.BytesIO(), format="png")
