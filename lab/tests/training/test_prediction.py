"""A finished run as the network of ``calibrant predict``."""

import numpy as np
import torch

from calibrant.predictions import load_predictions
from calibrant_lab.training import load_run
from calibrant_lab.training.data import read_data
from command_line import call, one_line


def test_a_run_predicts_its_test_samples_as_before(whole, recipe, tmp_path) -> None:
    """Prepared as its recipe says, its own test samples get the logits that they have in the run."""
    test = read_data(recipe.data).test
    np.savez(tmp_path / "own.npz", x_train=test.inputs[:, 0].numpy(), y_train=test.labels.numpy())
    options = ["-o", "p.npz", "--calibration-size", "0", "--batch-size", "512"]
    done = call("predict", str(whole), "own.npz", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = load_predictions(tmp_path / "p.npz")
    expected = load_run(whole).predictions.test
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-5, atol=1e-5)
    assert torch.equal(found.labels, expected.labels)
    refused = call("predict", str(whole), "own.npz", "-o", "q.npz", "--size", "4", folder=tmp_path)
    assert refused.returncode == 2
    assert "--size is not for a run, which prepares samples as its recipe says" in one_line(refused.stderr)
    assert "if on none, name --split all" in one_line(done.stderr)


def test_a_run_predicts_its_own_data_by_its_own_splits(whole, recipe, tmp_path) -> None:
    """No sample that it was trained on is predicted unless asked for, and then it is said."""
    done = call("predict", str(whole), recipe.data.name, "-o", "p.npz", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found, expected = load_predictions(tmp_path / "p.npz"), load_run(whole).predictions
    for part in ("calibration", "test"):
        one, other = getattr(found, part), getattr(expected, part)
        torch.testing.assert_close(one.scores, other.scores, rtol=1e-5, atol=1e-5)
        assert torch.equal(one.labels, other.labels)
    assert "note" not in one_line(done.stderr)
    asked = call("predict", str(whole), recipe.data.name, "-o", "q.npz", "--split", "all", folder=tmp_path)
    assert f"trained on {len(read_data(recipe.data).train)} of these samples" in asked.stderr
