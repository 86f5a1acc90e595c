"""Scores without a scale, such as a judge's 1 to 5: fitted and applied, and never evaluated as they are."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import load_predictions
from calibrant.predictions import ColumnNames


@pytest.fixture
def judged(tmp_path) -> np.ndarray:
    """A file of 600 scores, ``judge.csv``: each step up makes an answer more often right."""
    rng = np.random.default_rng(0)
    scores = rng.integers(1, 6, 600)
    correct = (rng.random(600) < scores / 6).astype(int)
    rows = [f"{score},{right}" for score, right in zip(scores, correct, strict=True)]
    (tmp_path / "judge.csv").write_text("\n".join(["score,correct", *rows]) + "\n")
    return scores


@pytest.mark.parametrize("command", ["evaluate", "check", "compare", "figure"])
def test_they_are_not_evaluated_before_a_fit(run, judged, tmp_path, command) -> None:
    """One sentence that names the way."""
    (tmp_path / "other.csv").write_text((tmp_path / "judge.csv").read_text())
    files = {"compare": ["judge.csv", "other.csv"], "figure": ["reliability", "judge.csv", "-o", "f.svg"]}
    given = files.get(command, ["judge.csv"])
    given += ["--max-ece", "0.1"] if command == "check" else []
    done = run(command, *given, "--score-columns", "score", "--label-column", "correct")
    said = " ".join(done.stderr.split())
    assert done.returncode == 2
    assert "no probabilities until a calibrator is fitted: calibrant fit FILE --score-columns score" in said


def test_they_are_calibrated(run, judged, tmp_path) -> None:
    """The probabilities are those that were planted, whatever the unit."""
    options = ["--score-columns", "score", "--method", "platt"]
    done = run("fit", "judge.csv", *options, "--label-column", "correct", "--all", "-o", "c.safetensors")
    assert done.returncode == 0, done.stderr
    done = run("apply", "c.safetensors", "judge.csv", *options[:2], "-o", "out.csv")
    assert done.returncode == 0, done.stderr
    found = load_predictions(tmp_path / "out.csv", columns=ColumnNames(label="correct"))
    np.testing.assert_allclose(found.probs.numpy(), judged / 6, atol=0.08)
    done = run("check", "out.csv", "--label-column", "correct", "--max-ece", "0.1")
    assert done.returncode == 0, done.stderr


def test_two_kinds_of_columns_are_refused(run, judged) -> None:
    """Scores beside probabilities."""
    done = run(
        "fit", "judge.csv", "--score-columns", "score", "--prob-columns", "score", "-o", "c.safetensors"
    )
    assert (done.returncode, "excludes --prob-columns" in done.stderr) == (2, True)
