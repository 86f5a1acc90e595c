"""The landscape as a picture, in words, and by the command."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from calibrant._math.errors import InputError
from calibrant.calibrators import Place
from calibrant.cli.main import app
from calibrant_lab.figures import Landscape, TemperatureRidge
from calibrant_lab.figures.landscape_heat_map import landscape_heat_map, landscape_key, landscape_sentence


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
    """Heat map, ridge, line and anchors, cloud, temperature scaling and the chosen point."""
    landscape = made(**changes)
    ax = landscape_heat_map(landscape)
    assert len(ax.collections) == 1
    drawn = [np.column_stack(line.get_data()) for line in ax.lines]
    for wanted in (landscape.cloud, landscape.line, [[0.8, 1.8]], [[0.0, 1.0]]):
        assert any(np.shape(each) == np.shape(wanted) and np.allclose(each, wanted) for each in drawn)
    assert ax.get_yscale() == ("log" if "temperatures" in changes else "linear")
    ax.figure.draw_without_rendering()


def test_colours_say_where_the_objective_is_low() -> None:
    ax = landscape_heat_map(made())
    heights = np.asarray(ax.collections[0].get_array()).reshape(15, 12)
    valley = np.abs(np.log(np.linspace(0.3, 7, 15))[:, None] - np.log1p(np.linspace(-0.5, 5, 12)))
    assert heights[valley < 0.02].max() < heights[valley > 0.5].min()
    assert (heights > 0).all()


def test_sentence_tells_what_one_sees() -> None:
    said = landscape_sentence(made())
    assert said.startswith(
        "Least log loss 0.40000 at gamma = 0.8, T = 1.8; temperature scaling has 0.41000 at T = 1, the "
        "search along the line 0.40510 at gamma = 0.7, T = 1.7."
    )
    assert "95% of 41 refits on resamples lie at gamma from 0.4 to 4.2 and T from 1.4 to 5.2" in said
    assert said.endswith("T from 1.4 to 5.2. Exponent 0, which is temperature scaling, lies outside.")
    around = made(cloud=np.stack([np.linspace(-0.5, 1, 41), np.linspace(1, 2, 41)], axis=1))
    among = "lies among these: the samples do not call for a second parameter."
    assert landscape_sentence(around).endswith(among)


@pytest.mark.parametrize(
    ("changes", "doubts", "conclusion"),
    [
        ({"trouble": ("5 samples tell little",)}, "5 samples tell little", "says nothing of other samples."),
        ({"chosen": Place(50.0, 9.0, 0.4)}, "the best point lies at an end of what is", "lies outside."),
        (
            {"cloud": np.stack([np.geomspace(0.05, 51, 41) - 1, np.linspace(1, 9, 41)], axis=1)},
            "the refits spread over gamma from -0.941 to 41.9",
            "lies among these: the samples do not call for a second parameter.",
        ),
    ],
)
def test_sentence_does_not_conclude_too_much(changes, doubts, conclusion) -> None:
    """Where the samples do not fix the parameters the sentence says so, and why; so does the picture."""
    landscape = made(**changes)
    said = landscape_sentence(landscape)
    assert f"These samples do not fix gamma and T: {doubts}" in said
    assert said.endswith(conclusion)
    assert landscape_heat_map(landscape).get_title().endswith("\nThese samples do not fix γ and T")
    assert "do not fix" not in landscape_heat_map(made()).get_title()


def test_key_explains_every_mark() -> None:
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


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(60, 3)), rng.integers(0, 2, (60, 3))
    np.savez(tmp_path / "several.npz", logits=logits, labels=labels, class_names=["a", "b", "c"])
    np.savez(tmp_path / "unnamed.npz", logits=logits, labels=labels)
    np.savez(tmp_path / "bare.npz", logits=logits)
    np.savez(tmp_path / "top.npz", confidence=rng.uniform(0.5, 1, 60), correct=labels[:, 0])
    np.savez(tmp_path / "one.npz", logits=logits, labels=labels[:, 0])
    return tmp_path


def landscape(file: Path, out: Path, *options: str) -> str:
    arguments = ["figure", "landscape", str(file), "-o", str(out), "--bootstrap", "2", *options]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, repr(result.exception)
    return result.output


@pytest.mark.usefixtures("few_points")
def test_landscape_of_a_file(tmp_path) -> None:
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(200, 4))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(tmp_path / "over.npz", logits=3 * logits, labels=labels, split=np.arange(200) % 2)
    path = tmp_path / "landscape.png"
    said = landscape(tmp_path / "over.npz", path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "On the 100 samples of the calibration split. Least log loss" in said
    everything = landscape(tmp_path / "over.npz", path, "--force", "--all", "--objective", "adaptive-ece")
    assert "On all 200 samples. Least adaptive ECE" in everything


@pytest.mark.usefixtures("few_points")
def test_landscape_of_one_label_and_of_confidences(files, monkeypatch) -> None:
    """A label by name or number; confidences are log-odds; without a split all of the file is used."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda _, path, **_more: Path(path).touch())
    by_name, by_number = (
        landscape(files / "several.npz", files / "label.svg", "--label", label) for label in ("b", "1")
    )
    assert "On all 60 samples; the file has no calibration split." in by_name
    assert by_number == by_name
    given = np.load(files / "top.npz")
    odds = np.log(given["confidence"] / (1 - given["confidence"]))
    np.savez(files / "odds.npz", logits=odds, labels=given["correct"])
    one, other = (landscape(files / name, files / "x.svg", "--force") for name in ("top.npz", "odds.npz"))
    assert one == other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["landscape"], "the figure landscape needs a file: `calibrant figure landscape FILE`"),
        (["landscpe", "one.npz"], "there is no figure 'landscpe'; did you mean 'landscape'?"),
        (["landscape", "one.npz", "-o", "x.gif"], "--out must end in .svg, .png or .pdf; got 'x.gif'"),
        (["landscape", "one.npz", "--objective", "auc"], '`--objective` must be one of "nll"'),
        (["landscape", "one.npz", "--label", "b"], "one.npz is multiclass"),
        (["landscape", "several.npz"], "has 3 labels per sample; choose one by --label: a, b, c, or 0 to 2"),
        (["landscape", "several.npz", "--label", "d"], "has no label 'd'; choose 'a', 'b' or 'c'."),
        (["landscape", "several.npz", "--label", "7"], "no label '7'; there are 3, from 0 to 2 (a, b, c)."),
        (["landscape", "unnamed.npz", "--label", "d"], "has no label 'd'; there are 3, from 0 to 2."),
        (["landscape", "bare.npz"], "bare.npz has no labels"),
    ],
)
def test_landscape_refusals(files, arguments, message) -> None:
    given = [str(files / each) if each.endswith((".npz", ".gif")) else each for each in arguments]
    result = CliRunner().invoke(app, ["figure", *given])
    assert isinstance(result.exception, InputError), result.output
    assert message in str(result.exception)
    assert not list(files.glob("*.svg"))
