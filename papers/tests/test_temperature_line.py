"""The temperature-line study, small: lines through known numbers, resuming, pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from calibrant._math.errors import InputError
from calibrant.calibrators.fitting.focal_searches import LINE_GAMMAS
from calibrant.cli.main import app
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.kept_runs import content_of, keep
from calibrant_lab.sweep.result import RunResult
from few_points import EXPONENTS, few_exponents
from papers.study import Session
from papers.study_runs import carry_out, grid_of, kept_results
from papers.temperature_line import GRID, PAGE
from papers.temperature_line.curves import file_curves, network_curves
from papers.temperature_line.measure import WORLDS, TemperatureLine, subjects_of
from papers.temperature_line.settings import GAMMAS, LOSSES
from papers.temperature_line.straight_lines import anchored_line, line_of

SMALL = {"num_training": 1700, "num_calibration": 20, "num_epochs": 2, "divisions": 1}


def test_the_exponents_are_those_of_the_search() -> None:
    """The study follows the range of the search along the line, and 0 and 1 are among its exponents."""
    assert (GAMMAS[0], GAMMAS[-1]) == (LINE_GAMMAS[0], LINE_GAMMAS[-1])
    assert {0.0, 1.0} <= set(GAMMAS)


def test_a_straight_line_is_found() -> None:
    """Slope, intercept, and nothing off it."""
    found = line_of(GAMMAS, [1.5 + 0.8 * gamma for gamma in GAMMAS])
    assert (found.intercept, found.slope, found.r_squared) == pytest.approx((1.5, 0.8, 1.0))
    assert found.deviation < 1e-12
    assert found.relative_slope == pytest.approx(0.8 / 1.5)


def test_a_curve_is_off_its_line() -> None:
    """R² and the largest distance are those of numpy's fit, over the stated range alone."""
    gammas = np.array(GAMMAS)
    values = np.sqrt(1 + gammas)
    found = line_of(GAMMAS, values.tolist(), (0.0, 5.0))
    kept = gammas >= 0
    straight = np.polyval(np.polyfit(gammas[kept], values[kept], 1), gammas[kept])
    assert found.deviation == pytest.approx(np.abs(straight / values[kept] - 1).max())
    assert found.r_squared == pytest.approx(np.corrcoef(gammas[kept], values[kept])[0, 1] ** 2)


def test_the_anchored_line_goes_through_its_anchors() -> None:
    """Through 0 and 1, whatever is elsewhere."""
    values = [1 + gamma if abs(gamma) < 1.1 else 9.0 for gamma in GAMMAS]
    found = anchored_line(GAMMAS, values)
    assert (found.intercept, found.slope) == pytest.approx((1.0, 1.0))
    assert found.deviation == pytest.approx((9 - 2.25) / 9)


@pytest.fixture
def few() -> Iterator[None]:
    """The exponents that the runs below have followed."""
    with few_exponents():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of classes, one of an event and one of two labels per sample."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("files")
    logits = 2 * rng.normal(size=(200, 3))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(folder / "classes.npz", logits=logits, labels=labels)
    odds = 3 * rng.normal(size=(150, 2))
    came = (rng.uniform(size=odds.shape) < 1 / (1 + np.exp(-odds / 2))).astype(int)
    np.savez(folder / "labels.npz", logits=odds, labels=came)
    np.savez(folder / "event.npz", probs=1 / (1 + np.exp(-odds[:, 0])), labels=came[:, 0])
    return folder


Runs = list[RunResult]


def content(runs: Runs) -> dict[str, Any]:
    """The results file of these runs."""
    return content_of([keep(each, PAGE.kept(each), PAGE.digits) for each in runs], {})


@pytest.fixture(scope="module")
def runs(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Everything once."""
    store = tmp_path_factory.mktemp("store")
    with few_exponents(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALIBRANT_DATA", str(folder))
        subjects = [*subjects_of(folder)[:-3], "digits, little data"]
        found = {"settings": SMALL, "axes": {"subject": subjects}}
        grid = grid_of(GRID, seeds=1, changes=found)
        carry_out(grid, Session(tell=lambda _: None), store)
        return kept_results(grid, store)


def test_subjects(folder: Path) -> None:
    """The files by their names, then the networks; without a folder those whose data need none."""
    assert subjects_of(folder) == ["classes.npz", "event.npz", "labels.npz", *WORLDS]
    assert subjects_of(None) == ["digits, little data", "digits, all data"]


def test_a_file_is_known_by_its_content(folder: Path, tmp_path: Path, monkeypatch) -> None:
    """One run for all seeds; another file of that name is another run, and a missing one is said."""
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path))
    grid = Grid.read({"axes": {"subject": ["event.npz"], "seed": [0, 1]}}, task=TemperatureLine())
    assert len(grid.points) == 1
    with pytest.raises(InputError, match=r"there is no file event\.npz in .*, which CALIBRANT_DATA names"):
        grid.items()
    (tmp_path / "event.npz").write_bytes((folder / "event.npz").read_bytes())
    (one,) = grid.items()
    (tmp_path / "event.npz").write_bytes((folder / "classes.npz").read_bytes())
    (other,) = grid.items()
    assert one.run != other.run
    monkeypatch.delenv("CALIBRANT_DATA")
    with pytest.raises(InputError, match="CALIBRANT_DATA must name the folder"):
        grid.items()
    with pytest.raises(InputError, match="no data 'digits, al data'; did you mean 'digits, all data'"):
        Grid.read({"axes": {"subject": ["digits, al data"]}}, task=TemperatureLine())


@pytest.mark.usefixtures("few")
def test_what_is_followed(runs: Runs) -> None:
    """Every file, every label, every loss and seed; searches in the order that they must have."""
    numbers = PAGE.numbers_in(content(runs))
    assert [curve.name for curve in file_curves(numbers)] == [
        "classes.npz",
        "event.npz",
        "labels.npz, label 0",
        "labels.npz, label 1",
    ]
    networks = network_curves(numbers)
    assert [curve.found["loss"] for curve in networks] == list(LOSSES)
    for curve in (*file_curves(numbers), *networks):
        reached = curve.found["nll"]
        assert reached["range"] <= reached["line"] <= reached["plain"]
        assert reached["full"] <= reached["range"] + 1e-9
        assert curve.lost_by() >= 0
        assert curve.fall_from("range") >= 0
        assert curve.at_zero > 0


@pytest.mark.usefixtures("few")
def test_page(runs: Runs, tmp_path: Path) -> None:
    """Page, numbers and picture, the same bytes from the same runs."""
    first, second = (PAGE.write(content(runs), tmp_path / name) for name in ("first", "second"))
    assert [path.name for path in first] == [
        "temperature-line.md",
        "temperature-line.json",
        "temperature-line.svg",
    ]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    text = first[0].read_text(encoding="utf-8")
    assert "nan" not in text
    assert "| `labels.npz` | 2 labels |" in text
    numbers = PAGE.read(tmp_path / "first")
    assert len(numbers["networks"]) == len(LOSSES)
    (curve,) = (curve for curve in file_curves(numbers) if curve.name == "classes.npz")
    slope, _ = np.polyfit(EXPONENTS, curve.likeliest, 1)
    assert curve.line().slope == pytest.approx(slope, rel=1e-4)


@pytest.mark.usefixtures("few")
def test_page_of_networks_alone(runs: Runs, tmp_path: Path) -> None:
    """Without a folder of data there are no files, and the page says nothing of them."""
    alone = [run for run in runs if run.settings["subject"] in WORLDS]
    text = PAGE.write(content(alone), tmp_path)[0].read_text(encoding="utf-8")
    assert "## Files of predictions" not in text
    assert "nan" not in text


def test_command_lists_it() -> None:
    """``python -m papers --list`` names it."""
    assert "temperature-line" in CliRunner().invoke(app, ["study", "--list"]).output
