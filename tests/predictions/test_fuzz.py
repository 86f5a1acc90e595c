"""Damaged files of every format are read as a strict reader reads them, or refused in one sentence."""

import numpy as np

from pages import tool

FUZZ = tool("fuzz")


def test_damaged_files_are_read_rightly_or_refused() -> None:
    """A short run of ``make fuzz``; each fault would be listed with the seed that makes its file."""
    faults: list[str] = []
    counts = FUZZ.fuzz(range(450), faults.append)
    assert faults == []
    assert counts["same"] > 50
    assert counts["refused"] > 100


def test_another_value_than_the_strict_reader_reads_is_told(tmp_path, monkeypatch) -> None:
    path = tmp_path / "p.csv"
    path.write_text("label,prob\n1,0.5\n0,0.25\n")
    assert FUZZ.verdict(path, "csv") == ("same", "")
    other = {"labels": np.array([1, 1]), "probs": np.array([0.5, 0.25])}
    monkeypatch.setattr(FUZZ, "strictly_read", lambda *_: other)
    assert FUZZ.verdict(path, "csv")[0] == "wrong"
