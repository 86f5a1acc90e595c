"""The command where its surroundings are odd: one sentence and the exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TABLE = "label,prob\n1,0.7\n0,0.5\n1,0.6\n0,0.2\n"


def run(text: str, folder: Path, **surroundings: str) -> subprocess.CompletedProcess[bytes]:
    """A line of a shell in which ``calibrant`` is this command."""
    line = text.replace("calibrant", f"{sys.executable} -m calibrant", 1)
    given = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | surroundings
    return subprocess.run(["bash", "-c", line], cwd=folder, env=given, capture_output=True, check=False)


def test_names_do_not_reach_the_terminal_as_they_are(tmp_path) -> None:
    """Escape sequences in a column's name are written out, also on the error stream."""
    (tmp_path / "p.csv").write_text("label,odd\x1b[31m\n1,2\n0,1\n")
    found = run("calibrant check p.csv", tmp_path)
    assert found.returncode == 2
    assert b"\x1b" not in found.stderr
    assert rb"`odd\x1b[31m`" in found.stderr


def test_a_closed_standard_input_is_one_sentence(tmp_path) -> None:
    """As one that is a terminal."""
    found = run("calibrant check - <&-", tmp_path)
    assert (found.returncode, found.stderr.count(b"\n")) == (2, 1)
    assert b"from a pipe, and there is none" in found.stderr


def test_a_folder_that_is_gone_is_one_sentence(tmp_path) -> None:
    """The working folder was deleted by another program."""
    (tmp_path / "p.csv").write_text(TABLE)
    (tmp_path / "gone").mkdir()
    found = run("cd gone && rmdir ../gone && calibrant check ../p.csv", tmp_path)
    assert found.returncode == 2
    assert b"the working folder is no longer there" in found.stderr
    assert b"Traceback" not in found.stderr


def test_a_terminal_without_width_shows_the_result(tmp_path) -> None:
    """``COLUMNS=0`` is no width: the default is taken."""
    (tmp_path / "p.csv").write_text(TABLE)
    found = run("calibrant check p.csv", tmp_path, COLUMNS="0")
    assert found.returncode in {0, 1, 2}
    assert found.stdout + found.stderr
