"""The landscape as a picture and in words."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest

from calibrant.calibrators import Place
from calibrant_lab.figures import Landscape, TemperatureRidge
from calibrant_lab.figures.landscape_heat_map import landscape_heat_map, landscape_key, landscape_sentence

_ZERO = "Exponent 0, which is temperature scaling, lies"


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
def test_it_is_drawn(changes) -> None:
    """Heat map, ridge, line and anchors, cloud, temperature scaling, the chosen point; and it is written."""
    landscape = made(**changes)
    ax = landscape_heat_map(landscape)
    assert len(ax.collections) == 1
    drawn = [np.column_stack(line.get_data()) for line in ax.lines]
    for wanted in (landscape.cloud, landscape.line, [[0.8, 1.8]], [[0.0, 1.0]]):
        assert any(np.shape(each) == np.shape(wanted) and np.allclose(each, wanted) for each in drawn)
    for ending in ("svg",) if changes else ("svg", "png"):
        buffer = io.BytesIO()
        ax.figure.savefig(buffer, format=ending)
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
        "Least log loss 0.40000 at gamma = 0.8, T = 1.8; temperature scaling has 0.41000 at T = 1, the "
        "search along the line 0.40510 at gamma = 0.7, T = 1.7."
    )
    assert "95% of 41 refits on resamples lie at gamma from 0.4 to 4.2 and T from 1.4 to 5.2" in said
    assert said.endswith("T from 1.4 to 5.2. Exponent 0, which is temperature scaling, lies outside.")


def test_sentence_tells_where_the_exponent_is_not_needed() -> None:
    """A cloud around 0 says so."""
    said = landscape_sentence(made(cloud=np.stack([np.linspace(-0.5, 1, 41), np.linspace(1, 2, 41)], axis=1)))
    assert "lies among these: the samples do not call for a second parameter." in said


@pytest.mark.parametrize(
    ("changes", "doubts", "conclusion"),
    [
        (
            {"trouble": ("5 samples tell little",)},
            "5 samples tell little",
            "Where the points lie says nothing of other samples.",
        ),
        (
            {"chosen": Place(50.0, 9.0, 0.4)},
            "the best point lies at an end of what is searched",
            f"{_ZERO} outside.",
        ),
        (
            {"cloud": np.stack([np.geomspace(0.05, 51, 41) - 1, np.linspace(1, 9, 41)], axis=1)},
            "the refits spread over gamma from -0.941 to 41.9",
            f"{_ZERO} among these: the samples do not call for a second parameter.",
        ),
    ],
    ids=["few", "at an end", "everywhere"],
)
def test_sentence_does_not_conclude_too_much(changes, doubts, conclusion) -> None:
    """Where the samples do not fix the parameters the sentence says so, and why; so does the picture."""
    landscape = made(**changes)
    said = landscape_sentence(landscape)
    assert said.endswith(f"These samples do not fix gamma and T: {doubts}. {conclusion}")
    assert landscape_heat_map(landscape).get_title().endswith("\nThese samples do not fix γ and T")
    assert "do not fix" not in landscape_heat_map(made()).get_title()


def test_key_explains_every_mark() -> None:
    """Ridge, line, squares and dots, by the words of the legend."""
    said = landscape_key(made())
    for words in (
        "the lower the log loss",
        "the ridge, the best T at each gamma",
        "at gamma = 0 and 1 (squares)",
        "then tries 12 points",
        "the same number of rows drawn with replacement",
        "Star: what is chosen on all rows; diamond: temperature scaling; cross: the logits as they came.",
    ):
        assert words in said
    legend = landscape_heat_map(made()).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [
        "ridge: best T at each γ",
        "line search: the 12 points it tries",
        "its start: best T at γ = 0 and 1",
        "chosen on 41 resamples of the rows",
        "temperature scaling (γ = 0)",
        "chosen on all rows",
        "logits as they came",
    ]
