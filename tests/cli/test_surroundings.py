"""The command where its surroundings are odd, its reader has left, or the fault is ours."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import calibrant
from calibrant import InputError
from calibrant._math.machine import bounded_memory
from calibrant.cli.streams import outlet
from command_line import call, one_line

TABLE = "label,prob\n1,0.7\n0,0.5\n1,0.6\n0,0.2\n"


def run(text: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """A line of a shell in which ``calibrant`` is this command."""
    line = text.replace("calibrant", f"{sys.executable} -m calibrant", 1)
    given = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(["bash", "-c", line], cwd=folder, env=given, capture_output=True, check=False)


def test_names_do_not_reach_the_terminal_as_they_are(tmp_path) -> None:
    (tmp_path / "p.csv").write_text("label,odd\x1b[31m\n1,2\n0,1\n")
    found = call("check p.csv", folder=tmp_path, code=2)
    assert "\x1b" not in found.stderr
    assert r"`odd\x1b[31m`" in found.stderr


def test_a_closed_standard_input_is_one_sentence(tmp_path, monkeypatch) -> None:
    """Python has None for it."""
    monkeypatch.setattr(sys, "stdin", None)
    found = call("check -", folder=tmp_path, code=2)
    assert found.stderr.count("\n") == 1
    assert "from a pipe, but there is none" in found.stderr


def test_a_folder_that_is_gone_is_one_sentence(tmp_path) -> None:
    (tmp_path / "p.csv").write_text(TABLE)
    (tmp_path / "gone").mkdir()
    found = run("cd gone && rmdir ../gone && calibrant check ../p.csv", tmp_path)
    assert found.returncode == 2
    assert b"the working folder no longer exists" in found.stderr
    assert b"Traceback" not in found.stderr


def test_a_link_to_itself_is_one_sentence(tmp_path) -> None:
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    found = call("evaluate loop.csv", folder=tmp_path, code=2)
    assert found.stderr.count("\n") == 1
    assert "Too many levels of symbolic links" in found.stderr


def test_a_terminal_without_width_shows_the_result(tmp_path, monkeypatch) -> None:
    """``COLUMNS=0`` is no width: the default is taken."""
    (tmp_path / "p.csv").write_text(TABLE)
    monkeypatch.setenv("COLUMNS", "0")
    assert "there is nothing to check" in one_line(call("check p.csv", folder=tmp_path, code=2).stderr)


def _swelling_archive(path: Path) -> None:
    """1 MB of zeros, 800 MB when unpacked."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("labels.npy", "w") as file:
            np.save(file, np.zeros(2))
        with archive.open("probs.npy", "w") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (100_000_000,)}
            np.lib.format.write_array_header_1_0(file, header)
            for _ in range(100):
                file.write(bytes(8_000_000))


# Libraries come first: with PyTorch for GPUs they take far more than with that for CPUs.
LIMITED = """
import resource, sys, torch, numba, scipy.stats
from calibrant.cli.main import run
held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, ((held + 450_000) * 1024,) * 2)
for name in ("p.csv", "p.json", "p.npz"):
    sys.argv[1:] = ["check", name, "--max-ece", "1"]
    try:
        run()
    except SystemExit as end:
        print(name, end.code)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing limits memory")
def test_more_memory_than_there_is_is_one_sentence(tmp_path) -> None:
    """Files that swell when they are read or unpacked; small ones are judged beside the same limit."""
    (tmp_path / "p.csv").write_text(TABLE)
    (tmp_path / "p.json").write_text("[" + ",".join(['{"a":1}'] * 3_000_000) + "]")
    _swelling_archive(tmp_path / "p.npz")
    command = [sys.executable, "-c", LIMITED]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    ends = [line for line in found.stdout.splitlines() if line.startswith("p.")]
    assert ends == ["p.csv 0", "p.json 2", "p.npz 2"], found.stdout + found.stderr
    for name in ("p.json", "p.npz"):
        assert f"{name}: it needs more memory than there is" in found.stderr
    assert "Traceback" not in found.stderr


def test_memory_that_runs_short_later_is_told_with_what_is_left() -> None:
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")):
        with pytest.raises(InputError, match="this needs more memory than there is"), bounded_memory():
            raise error
    with pytest.raises(RuntimeError, match="another"), bounded_memory():
        raise RuntimeError("another")


@pytest.mark.parametrize("text", ["pass", 100_000 * "pass"], ids=["flushed", "written"])
def test_a_reader_that_leaves_ends_nothing(text) -> None:
    """What goes into a pipe that nobody reads is dropped, as often as written; the pipe itself raises."""
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError, match="Broken pipe"):
        os.write(writing, text.encode())
    with os.fdopen(writing, "w") as bare:
        stream = outlet(bare)
        for _ in range(2):
            assert stream.write(text) == len(text)
            stream.flush()
        assert not stream.isatty()


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["check", "absent.csv"], 2)])
def test_without_any_output_the_exit_code_stays(tmp_path, words, code) -> None:
    """Python has None for a stream that was closed before it began, and flushes nothing at its end."""
    assert outlet(None) is None
    assert call(*words, folder=tmp_path, closed=True).returncode == code


def test_a_fault_is_not_a_failed_gate(monkeypatch, tmp_path) -> None:
    """The exit code is 3, stdout stays empty, and stderr has the traceback, then what to report."""
    (tmp_path / "p.npz").write_bytes(b"predictions")
    mistaken = Mock(side_effect=KeyError("[red]absent[/red]"))
    monkeypatch.setattr("calibrant.predictions.open_predictions", mistaken)
    done = call("check", "p.npz", "--max-ece", "0.05", folder=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    last = done.stderr.splitlines()[-5:]
    assert last[0] == "calibrant: this is a bug in calibrant, not a mistake in your input."
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
