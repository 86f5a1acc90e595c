"""``calibrant figure landscape``, which the laboratory adds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from calibrant._math.errors import InputError
from calibrant.cli.main import app


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Files that a landscape can and cannot be drawn of."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(60, 3)), rng.integers(0, 2, (60, 3))
    np.savez(tmp_path / "several.npz", logits=logits, labels=labels, class_names=["a", "b", "c"])
    np.savez(tmp_path / "unnamed.npz", logits=logits, labels=labels)
    np.savez(tmp_path / "bare.npz", logits=logits)
    np.savez(tmp_path / "top.npz", confidence=rng.uniform(0.5, 1, 60), correct=labels[:, 0])
    np.savez(tmp_path / "one.npz", logits=logits, labels=labels[:, 0])
    return tmp_path


def landscape(file: Path, out: Path, *options: str) -> str:
    """What the command says of a file."""
    arguments = ["figure", "landscape", str(file), "-o", str(out), "--bootstrap", "2", *options]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, repr(result.exception)
    return result.output


@pytest.mark.usefixtures("few_points")
def test_landscape_of_a_file(tmp_path) -> None:
    """Of the calibration split; the picture is written and a sentence tells what one sees."""
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
def test_landscape_of_one_label(files) -> None:
    """By name or number; a file without a split says that all of it is used."""
    by_name, by_number = (
        landscape(files / "several.npz", files / "label.svg", "--label", label) for label in ("b", "1")
    )
    assert "On all 60 samples; the file has no calibration split." in by_name
    assert by_number == by_name


@pytest.mark.usefixtures("few_points")
def test_landscape_of_confidences(files) -> None:
    """That of the same numbers as log-odds, with what was right as labels."""
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
        (["landscape", "one.npz", "-o", "x.gif"], "--out must end in .svg, .png, .pdf; got 'x.gif'"),
        (["landscape", "one.npz", "--objective", "auc"], '`--objective` must be one of "nll"'),
        (["landscape", "one.npz", "--label", "b"], "one.npz is multiclass"),
        (["landscape", "several.npz"], "has 3 labels per sample; choose one by --label: a, b, c, or 0 to 2"),
        (["landscape", "several.npz", "--label", "d"], "has no label 'd'; choose 'a', 'b' or 'c'."),
        (
            ["landscape", "several.npz", "--label", "7"],
            "has no label '7'; there are 3, from 0 to 2 (a, b, c).",
        ),
        (["landscape", "unnamed.npz", "--label", "d"], "has no label 'd'; there are 3, from 0 to 2."),
        (["landscape", "bare.npz"], "bare.npz has no labels"),
    ],
)
def test_landscape_refusals(files, arguments, message) -> None:
    """A missing or superfluous file or option, an unknown objective or label, a file that will not do."""
    given = [str(files / each) if each.endswith((".npz", ".gif")) else each for each in arguments]
    result = CliRunner().invoke(app, ["figure", *given])
    assert isinstance(result.exception, InputError), result.output
    assert message in str(result.exception)
    assert not list(files.glob("*.svg"))
