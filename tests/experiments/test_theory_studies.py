"""The linear-model and generalisation-gap studies, small: descent, resuming, pages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from calibrant import theory
from calibrant._math.errors import InputError
from calibrant.cli.main import app
from calibrant.experiments.studies import linear_model
from calibrant.experiments.studies.generalisation_gap import Cell, run_generalisation_gap
from calibrant.experiments.studies.generalisation_gap_page import write_generalisation_gap
from calibrant.experiments.studies.linear_model import GAMMAS, Setting, descend, draw, push, run_linear_model
from calibrant.experiments.studies.linear_model_page import write_linear_model
from calibrant.experiments.studies.study_records import Records
from calibrant.losses import focal_loss

SMALL = Setting(num_samples=80, num_test=400, learning_rate=0.5, iterations=3000)


def test_push_is_the_loss_s_slope() -> None:
    """The descent's formula is minus the slope of the library's focal loss in the true class's log-odds."""
    margin = torch.linspace(-6, 6, 25, dtype=torch.float64, requires_grad=True)
    logits = torch.stack([torch.zeros_like(margin), margin], 1)
    for gamma in GAMMAS:
        (slope,) = torch.autograd.grad(
            focal_loss(logits, torch.ones(25, dtype=torch.int64), gamma=gamma, reduction="sum"),
            margin,
            retain_graph=True,
        )
        found = push(margin.detach().numpy()[None], np.array([[gamma]]))[0]
        np.testing.assert_allclose(found, -slope.numpy(), rtol=1e-10, atol=1e-14)


def test_descent_arrives_at_the_minimum() -> None:
    """Gradient descent ends where Newton's method does, for every exponent."""
    found = run_linear_model_once()
    assert all(arm["rest"] < 1e-6 for arm in found["arms"])
    norms = [arm["norm"] for arm in found["arms"]]
    assert norms == sorted(norms, reverse=True)


def run_linear_model_once() -> dict[str, object]:
    """One record of the small setting, without a store."""
    return linear_model._run(SMALL, 0)


def test_the_posterior_is_the_frequency() -> None:
    """Labels of the drawn points have the stated probabilities."""
    sample = draw(Setting(spread=0.8), 200_000, seed=1)
    z = (sample.labels - sample.posterior).sum() / np.sqrt((sample.posterior * (1 - sample.posterior)).sum())
    assert abs(z) < 4
    near = np.abs(sample.points[:, 0]) < 0.5
    slope = ((sample.labels - sample.posterior) * sample.points[:, 0])[near]
    assert abs(slope.mean()) < 4 * slope.std() / np.sqrt(near.sum())


def test_descent_keeps_its_checkpoints() -> None:
    """The first and the last step are kept."""
    sample = draw(SMALL, 50, seed=0)
    found = descend(sample, Setting(iterations=40))
    assert min(found) == 1
    assert max(found) == 40
    assert found[40].shape == (len(GAMMAS), 2)


def test_records_resume(tmp_path: Path) -> None:
    """What is there is not computed again; a cut-off last line is dropped, another bad line is refused."""
    path = tmp_path / "records.jsonl"
    assert Records(path).get("a", lambda: {"value": 1})["value"] == 1
    assert Records(path).get("a", lambda: {"value": 2})["value"] == 1
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": "b", "val')
    assert Records(path).get("b", lambda: {"value": 3})["value"] == 3
    assert [json.loads(line)["value"] for line in path.read_text(encoding="utf-8").splitlines()] == [1, 3]
    path.write_text('nonsense\n{"key": "b"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 1, is no record of a study"):
        Records(path)


def test_linear_model_page(tmp_path: Path) -> None:
    """Page, numbers and picture, the same bytes from the same runs."""
    runs = run_linear_model(tmp_path / "store", seeds=[0, 1], setting=SMALL, tell=lambda _: None)
    first = write_linear_model(runs, tmp_path / "first", SMALL)
    second = write_linear_model(runs, tmp_path / "second", SMALL)
    assert [path.name for path in first] == ["linear-model.md", "linear-model.json", "linear-model.svg"]
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
    text = first[0].read_text(encoding="utf-8")
    assert "nan" not in text
    numbers = json.loads(first[1].read_text(encoding="utf-8"))
    assert numbers["arms"][0]["norm"]["n"] == 2
    each = [run["arms"][0]["norm"] for run in numbers["runs"]]
    assert numbers["arms"][0]["norm"]["mean"] == pytest.approx(sum(each) / 2, rel=1e-5)


@pytest.fixture(scope="module")
def gap_records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """Two loads, two seeds."""
    cells = [Cell(num_samples=200, num_features=40), Cell(num_samples=800, num_features=2)]
    store = tmp_path_factory.mktemp("gap")
    return run_generalisation_gap(store, seeds=[0, 1], cells=cells, tell=lambda _: None)


def test_the_argument_in_numbers(gap_records: list[dict[str, object]]) -> None:
    """Cross-entropy: temperature 1 on its sample, above on new ones; the product foretells focal loss's."""
    for record in gap_records:
        cross, focal = record["arms"][0], record["arms"][2]
        assert cross["train"]["temperature"] == pytest.approx(1, abs=1e-7)
        product = focal["train"]["temperature"] * cross["test"]["temperature"]
        assert product == pytest.approx(focal["test"]["temperature"], rel=0.05)
        closest = theory.closest_temperature(1.0, 2).temperature
        assert focal["train"]["temperature"] == pytest.approx(closest, rel=0.03)
    assert gap_records[0]["arms"][0]["test"]["temperature"] > 1.5


def test_generalisation_gap_page(gap_records: list[dict[str, object]], tmp_path: Path) -> None:
    """The page is whole with cells missing, and says how many fits have no minimum."""
    written = write_generalisation_gap(gap_records, tmp_path)
    text = written[0].read_text(encoding="utf-8")
    assert "All 24 fits have a minimum." in text
    assert "nan" not in text
    cells = json.loads(written[1].read_text(encoding="utf-8"))["cells"]
    assert [(cell["num_samples"], cell["num_features"]) for cell in cells] == [(200, 40), (800, 2)]


def test_fits_without_minimum_are_counted(tmp_path: Path) -> None:
    """A sample that can be separated is said to be so, and the page leaves it out."""
    cells = [Cell(num_samples=20, num_features=40), Cell(num_samples=200, num_features=40)]
    records = run_generalisation_gap(tmp_path, seeds=[0], cells=cells, tell=lambda _: None)
    assert not any(arm["converged"] for arm in records[0]["arms"])
    written = write_generalisation_gap(records[1:], tmp_path / "page")
    assert written[0].exists()


def test_command_runs_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``calibrant study`` writes the pages, and a second time without computing."""
    monkeypatch.setattr(linear_model, "DEFAULT", SMALL)
    command = ["study", "linear-model", "--out", str(tmp_path), "--seeds", "1"]
    first = CliRunner().invoke(app, command, catch_exceptions=False)
    assert first.exit_code == 0
    assert (tmp_path / "linear-model.md").exists()
    monkeypatch.setattr(linear_model, "_run", lambda *_: pytest.fail("computed again"))
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
