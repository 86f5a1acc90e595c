"""Scores without a scale, such as a judge's 1 to 5: fitted and applied, and never evaluated as they are."""

from __future__ import annotations

import numpy as np

from calibrant import load_predictions
from calibrant.predictions import ColumnNames


def test_scores_are_calibrated(run, tmp_path) -> None:
    """The probabilities are those that were planted, whatever the unit: each step up is more often right."""
    rng = np.random.default_rng(0)
    scores = rng.integers(1, 6, 600)
    correct = (rng.random(600) < scores / 6).astype(int)
    rows = [f"{score},{right}" for score, right in zip(scores, correct, strict=True)]
    (tmp_path / "judge.csv").write_text("\n".join(["score,correct", *rows]) + "\n")
    options = ["--score-columns", "score", "--method", "platt"]
    done = run("fit", "judge.csv", *options, "--label-column", "correct", "--all", "-o", "c.safetensors")
    assert done.returncode == 0, done.stderr
    done = run("apply", "c.safetensors", "judge.csv", *options[:2], "-o", "out.csv")
    assert done.returncode == 0, done.stderr
    found = load_predictions(tmp_path / "out.csv", columns=ColumnNames(label="correct"))
    np.testing.assert_allclose(found.probs.numpy(), scores / 6, atol=0.08)
    done = run("check", "out.csv", "--label-column", "correct", "--max-ece", "0.1")
    assert done.returncode == 0, done.stderr
