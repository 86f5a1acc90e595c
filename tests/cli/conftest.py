"""The command line as a user meets it: a process with arguments, its output and its exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run ``calibrant ARGUMENTS`` in an empty folder."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from calibrant.cli.main import run; run()", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)

    return run


@pytest.fixture
def over_confident(tmp_path: Path) -> Path:
    """A file of 4000 over-confident predictions of four classes, half calibration and half test."""
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(4000, 4))
    labels = np.array([rng.choice(4, p=row) for row in np.exp(logits) / np.exp(logits).sum(1, keepdims=True)])
    path = tmp_path / "over.npz"
    np.savez(path, logits=(3 * logits).astype(np.float32), labels=labels, split=np.arange(4000) % 2)
    return path
