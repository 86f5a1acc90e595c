"""``calibrant figure``."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from calibrant.cli.main import app
from calibrant.reports import file_figures
from calibrant.reports.figures.drawing import drawing_style
from calibrant.reports.file_figures import FigureRequest, all_figures, draw_reliability, figure_named


def test_list_names_every_figure() -> None:
    result = CliRunner().invoke(app, ["figure", "--list"])
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.output.splitlines()]
    assert names == [figure.name for figure in all_figures()]


def test_the_ending_says_what(tmp_path) -> None:
    for ending, start in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        path, made = tmp_path / f"once{ending}", set[bytes]()
        for _ in range(1 if ending == ".png" else 2):
            result = CliRunner().invoke(app, ["figure", "focal-decomposition", "-o", str(path), "--force"])
            assert result.exit_code == 0, result.output
            made.add(path.read_bytes())
            path.unlink()
        assert len(made) == 1
        assert made.pop().startswith(start)


def test_what_the_caption_gets_wrong_is_said(tmp_path, monkeypatch) -> None:
    regions, quicker = (figure_named(name) for name in ("confidence-regions", "focal-decomposition"))
    quick = replace(regions, panels=quicker.panels)
    monkeypatch.setattr(file_figures, "all_figures", lambda: (quick,))
    noted = CliRunner().invoke(app, ["figure", "confidence-regions", "-o", str(tmp_path / "drawn.svg")])
    assert "proposition 5" in noted.output


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Files of every kind, and one without labels."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(60, 3)), rng.integers(0, 2, (60, 3))
    np.savez(tmp_path / "several.npz", logits=logits, labels=labels, class_names=["a", "b", "c"])
    np.savez(tmp_path / "bare.npz", logits=logits)
    np.savez(tmp_path / "top.npz", confidence=rng.uniform(0.5, 1, 60), correct=labels[:, 0])
    np.savez(tmp_path / "one.npz", logits=logits, labels=labels[:, 0])
    np.savez(tmp_path / "other.npz", logits=2 * logits, labels=labels[:, 0])
    np.savez(tmp_path / "event.npz", logits=logits[:, 0], labels=labels[:, 0])
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reliability", "one.npz"], "one: 60 samples, top label; of "),
        (["reliability", "one.npz", "other.npz", "--bins", "5"], "other: 60 samples, top label; of "),
        (["reliability", "several.npz", "--label", "b"], "several: 60 samples, b; of "),
        (["confidence", "one.npz", "other.npz"], ""),
        (["roc", "event.npz"], ""),
        (["risk-coverage", "one.npz", "other.npz"], ""),
        (["decision-curve", "one.npz", "other.npz", "--positive-class", "2"], ""),
        (["calibration-curve", "one.npz", "other.npz", "--positive-class", "1"], ""),
        (["decision-curve", "several.npz", "--label", "b", "--level", "0.9"], ""),
        (["classes", "several.npz"], ""),
    ],
)
def test_figures_of_files(files, arguments, said) -> None:
    """Of all rows where there is no split; several files are laid over one another, each under its name."""
    given = [str(files / each) if each.endswith(".npz") else each for each in arguments]
    out = files / "drawn.svg"
    result = CliRunner().invoke(app, ["figure", *given, "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert said in result.stdout
    drawn = out.read_text(encoding="utf-8")
    if "other.npz" in arguments:
        assert ">one" in drawn
        assert ">other" in drawn


def test_figures_read_files_as_evaluate_does(tmp_path) -> None:
    """A label column and a column of probabilities by any names; a figure of the theory reads nothing."""
    rows = "".join(f"{k % 2},{0.2 + 0.6 * (k % 2)}\n" for k in range(40))
    (tmp_path / "odd.csv").write_text(f"ill,risk\n{rows}")
    names = ["--label-column", "ill", "--prob-columns", "risk", "--level", "90"]
    arguments = ["figure", "confidence", str(tmp_path / "odd.csv"), "-o", str(tmp_path / "drawn.svg")]
    result = CliRunner().invoke(app, arguments + names)
    assert result.exit_code == 0, result.output


def test_figures_are_as_wide_and_called_as_asked(files) -> None:
    """``--width`` in inches, ``--names`` in the legend; too few names, and those of theory, are refused."""
    given = ["figure", "confidence", str(files / "one.npz"), str(files / "other.npz"), "--width", "3"]
    out = files / "drawn.svg"
    result = CliRunner().invoke(app, [*given, "--names", "before, after", "-o", str(out)])
    assert result.exit_code == 0, result.output
    drawn = out.read_text(encoding="utf-8")
    assert all(f">{name}" in drawn for name in ("before", "after"))
    assert 'width="216pt"' in drawn  # 72 points an inch


@pytest.mark.parametrize("width", [2.0, 3.3, 6.5])
def test_the_legend_lies_beside_what_is_drawn(files, width) -> None:
    """Above the axes, within the figure, at any width; it says what the coloured bands are."""
    request = FigureRequest(files={name: files / f"{name}.npz" for name in ("one", "other")}, width=width)
    with drawing_style():
        figure = draw_reliability(request).figure
        (legend,) = figure.legends
        box, upper = legend.get_window_extent(), figure.axes[0]
    assert box.y0 >= upper.get_window_extent().y1
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert "bands: noise" in [text.get_text() for text in legend.get_texts()]
    shape = upper.get_window_extent()
    assert shape.width == pytest.approx(shape.height)  # as wide as the histogram below
