"""A finished run as the network of ``calibrant predict``."""

from __future__ import annotations

import numpy as np
import torch

from calibrant.predictions import load_predictions
from calibrant.training import load_run
from calibrant.training.data import read_data
from command_line import call


def test_a_run_predicts_its_test_samples_as_before(whole, recipe, tmp_path) -> None:
    """Prepared as its recipe says, its own test samples get the logits that they have in the run."""
    test = read_data(recipe.data).test
    np.savez(tmp_path / "own.npz", x_train=test.inputs[:, 0].numpy(), y_train=test.labels.numpy())
    options = ["-o", "p.npz", "--calibration", "0", "--batch-size", "512"]
    done = call("predict", str(whole), "own.npz", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = load_predictions(tmp_path / "p.npz")
    expected = load_run(whole).predictions.test
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-5, atol=1e-5)
    assert torch.equal(found.labels, expected.labels)
    refused = call("predict", str(whole), "own.npz", "-o", "q.npz", "--size", "4", folder=tmp_path)
    assert refused.returncode == 2
    assert "--size is not for a run, which prepares samples as its recipe says" in refused.stderr
