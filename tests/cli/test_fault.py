"""Errors that are our fault."""

from __future__ import annotations

from unittest.mock import Mock

import calibrant
from command_line import call, one_line


def test_a_fault_is_not_a_failed_gate(monkeypatch, tmp_path) -> None:
    """The exit code is 3, stdout stays empty, and stderr has the traceback, then what to report."""
    (tmp_path / "p.npz").write_bytes(b"predictions")
    mistaken = Mock(side_effect=KeyError("[red]absent[/red]"))
    monkeypatch.setattr("calibrant.predictions.open_predictions", mistaken)
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
    assert "Traceback (most recent call last):" in one_line(done.stderr)
    assert "\nKeyError: '[red]absent[/red]'\n" in one_line(done.stderr)


def test_an_error_in_the_users_code_is_not_a_fault(tmp_path) -> None:
    """A network of the user's that fails: 2, one sentence with the file and the line."""
    own = "import torch\nclass Own(torch.nn.Module):\n    def forward(self, _):\n        return 1 / 0\n"
    (tmp_path / "own_of_fault.py").write_text(own)
    done = call("predict", "own_of_fault:Own", "digits", "-o", "p.npz", folder=tmp_path)
    assert done.returncode == 2
    said = "your code fails: ZeroDivisionError: division by zero (own_of_fault.py, line 4)"
    assert done.stderr == f"calibrant: {said}.\n"
