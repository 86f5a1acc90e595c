"""What the tests of the command line share: a way to run it, and a file of predictions."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from command_line import call

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run ``calibrant ARGUMENTS`` in an empty folder."""
    return lambda *arguments, **how: call(*arguments, folder=tmp_path, **how)


@pytest.fixture
def over_confident(tmp_path: Path) -> Path:
    """A file of 4000 over-confident predictions of four classes, half calibration and half test."""
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(4000, 4))
    shares = (np.exp(logits) / np.exp(logits).sum(1, keepdims=True)).cumsum(axis=1)
    labels = (rng.random((4000, 1)) >= shares / shares[:, -1:]).sum(axis=1)
    path = tmp_path / "over.npz"
    np.savez(path, logits=(3 * logits).astype(np.float32), labels=labels, split=np.arange(4000) % 2)
    return path
