"""Every calibrator on every file: what is done is not done again, and the page says what the trials show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibrant.experiments.studies.calibrators import PAGE, measure
from calibrant.experiments.studies.calibrators.measure import run_calibrator_study
from calibrant.experiments.studies.calibrators.numbers import gain, numbers_of, read_trials, summaries

NAMES = ["temperature", "focal-temperature", "vector", 'temperature(objective="ece")']


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One file of over-confident logits, and few calibrators."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(600, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "over.npz", logits=3 * logits, labels=labels)
    monkeypatch.setattr(measure, "calibrators_for", lambda _kind, _classes: NAMES)
    return tmp_path


def test_a_study_goes_on_where_it_was_stopped(folder: Path) -> None:
    """A second call adds nothing; a line that was cut off is made anew."""
    lines = run_calibrator_study(folder / "data", folder / "out", seeds=range(2))
    whole, before = lines.read_text(encoding="utf-8"), read_trials(lines)
    assert len(whole.splitlines()) == 2 * (1 + len(NAMES))
    run_calibrator_study(folder / "data", folder / "out", seeds=range(2))
    assert lines.read_text(encoding="utf-8") == whole
    lines.write_text(whole[: whole.rstrip().rindex("\n") + 30] + "\n", encoding="utf-8")
    run_calibrator_study(folder / "data", folder / "out", seeds=range(2))
    again = read_trials(lines)
    assert [trial.measures for trial in again] == [trial.measures for trial in before]


def test_the_page_says_what_the_trials_show(folder: Path) -> None:
    """Temperature scaling lowers the loss of over-confident logits and changes no decision."""
    trials = read_trials(run_calibrator_study(folder / "data", folder / "out", seeds=range(3)))
    fall = gain(trials, "nll", "uncalibrated", "temperature")
    assert fall is not None
    assert fall.n == 3
    assert fall.low > 0
    of = {each.calibrator: each for each in summaries(trials)}
    assert of["temperature"].changed == 0
    assert of["uncalibrated"].seconds is None
    page, numbers = PAGE.write(numbers_of(trials, {}), folder / "results")
    text = page.read_text(encoding="utf-8")
    assert "## `over.npz`" in text
    assert "nan" not in text
    kept = json.loads(numbers.read_text(encoding="utf-8"))
    assert len(kept["files"]["over.npz"]) == len(trials)
    assert PAGE.text(kept) == text


def test_divisions_that_are_not_complete_are_left_out(folder: Path) -> None:
    """Means are over the same divisions for every calibrator."""
    trials = read_trials(run_calibrator_study(folder / "data", folder / "out", seeds=range(2)))
    assert PAGE.text(numbers_of(trials[:-1], {})).count("1 times") == 1
