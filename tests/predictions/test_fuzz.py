"""Damaged files of every format are read as a strict reader reads them, or refused in one sentence."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def tool() -> Any:
    """``tools/fuzz.py`` as a module."""
    spec = importlib.util.spec_from_file_location("fuzz", Path(__file__).parents[2] / "tools" / "fuzz.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_damaged_files_are_read_rightly_or_refused(tool) -> None:
    """A short run of ``make fuzz``; each fault would be listed with the seed that makes its file."""
    faults: list[str] = []
    counts = tool.fuzz(range(450), faults.append)
    assert faults == []
    assert counts["same"] > 50
    assert counts["refused"] > 100


def test_another_value_than_the_strict_reader_reads_is_told(tool, tmp_path, monkeypatch) -> None:
    path = tmp_path / "p.csv"
    path.write_text("label,prob\n1,0.5\n0,0.25\n")
    assert tool.verdict(path, "csv") == ("same", "")
    other = {"labels": np.array([1, 1]), "probs": np.array([0.5, 0.25])}
    monkeypatch.setattr(tool, "strictly_read", lambda *_: other)
    assert tool.verdict(path, "csv")[0] == "wrong"
