"""Errors that are our fault."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

import calibrant
from command_line import call, one_line


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reading a file meets a mistake in the code."""
    (tmp_path / "p.npz").write_bytes(b"predictions")
    mistaken = Mock(side_effect=KeyError("[red]absent[/red]"))
    monkeypatch.setattr("calibrant.predictions.open_predictions", mistaken)


@pytest.mark.usefixtures("broken")
def test_a_fault_is_not_a_failed_gate(tmp_path: Path) -> None:
    """The exit code is 3, stdout stays empty, and what to report is the end of stderr."""
    done = call("check", "p.npz", "--max-ece", "0.05", folder=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    last = done.stderr.splitlines()[-5:]
    assert last[0] == "calibrant: this is a fault of calibrant, not of your input."
    assert last[1] == "Please report it with the traceback above and these lines:"
    assert last[2].startswith("  KeyError: '[red]absent[/red]' (cli/reading.py, line ")
    assert last[3] == "  calibrant check p.npz --max-ece 0.05"
    assert f"calibrant {calibrant.__version__}, Python 3." in last[4]
    assert "torch 2." in last[4]
    assert "numba 0." in last[4]


@pytest.mark.usefixtures("broken")
def test_a_fault_shows_its_traceback(tmp_path: Path) -> None:
    """Without it nobody could mend the fault."""
    done = call("check", "p.npz", "--max-ece", "0.05", folder=tmp_path)
    assert "Traceback (most recent call last):" in one_line(done.stderr)
    assert "\nKeyError: '[red]absent[/red]'\n" in one_line(done.stderr)


def test_wrong_input_is_not_a_fault(tmp_path: Path) -> None:
    """A file that is not there is the user's: 2, one sentence, no request to report it."""
    done = call("check", "p.npz", "--max-ece", "0.05", folder=tmp_path)
    assert done.returncode == 2
    assert "report" not in one_line(done.stderr)


def test_an_error_in_the_users_code_is_not_a_fault(tmp_path: Path) -> None:
    """A network of the user's that fails: 2, one sentence with the file and the line."""
    own = "import torch\nclass Own(torch.nn.Module):\n    def forward(self, _):\n        return 1 / 0\n"
    (tmp_path / "own_of_fault.py").write_text(own)
    done = call("predict", "own_of_fault:Own", "digits", "-o", "p.npz", folder=tmp_path)
    assert done.returncode == 2
    said = "your code fails: ZeroDivisionError: division by zero (own_of_fault.py, line 4)"
    assert done.stderr == f"calibrant: {said}.\n"
