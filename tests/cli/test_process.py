"""Every command once: its exit code and where it speaks; some in a process of their own, and Ctrl-C."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calibrant.cli.main import app
from command_line import START, call

# Arguments, exit code, and a word of the output; on failure the output is a sentence on stderr.
CALLS = {
    "evaluate": (("evaluate", "p.npz", "--bootstrap", "20"), 0, "onfident"),
    "fit": (("fit", "p.npz", "-o", "c.txt"), 2, ".safetensors"),
    "apply": (("apply", "absent.safetensors", "p.npz", "-o", "q.npz"), 2, "absent.safetensors: no such file"),
    "compare": (("compare", "p.npz"), 2, "two files or more"),
    "check": (("check", "p.npz", "--max-ece", "0.001"), 1, "FAIL: "),
    "monitor": (("monitor", "absent.csv", "--time", "when"), 2, "absent.csv: no such file"),
    "demo": (("demo", "--seed", "-1"), 2, "--seed"),
    "train": (("train", "absent.toml"), 2, "absent.toml"),
    "sweep": (("sweep", "absent.toml"), 2, "absent.toml"),
    "predict": (("predict", "absent", "digits", "-o", "absent/out.npz"), 2, "does not exist"),
    "table": (("table", "--list"), 0, "mukhoti-1"),
    "heatmap": (("heatmap", "absent"), 2, "there is no run absent"),
    "runs": (("runs", "absent"), 2, "absent is not a store of runs"),
    "study": (("study", "--list"), 0, "losses"),
    "figure": (("figure", "focal-arrows", "-o", "x.gif"), 2, ".svg, .png or .pdf"),
    "curvature": (("curvature", "absent"), 2, "there is no run absent"),
    "convert": (("convert", "absent.pth", "-o", "w.safetensors"), 2, "absent.pth: no such file"),
    "serve": (("serve", "--port", "70000"), 2, "--port"),
    "methods": (("methods",), 0, "temperature"),
    "show_help": (("help", "input"), 0, "--prob-columns"),
}

HEARS = "import signal;signal.signal(signal.SIGINT, signal.default_int_handler);"
"""A program that begins with it hears Ctrl-C, which a job in the background ignores."""
NAMES = [command.callback.__name__ for command in app.registered_commands] + [
    group.name for group in app.registered_groups
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with predictions of an over-confident binary model in it."""
    rng = np.random.default_rng(0)
    odds = rng.normal(size=400)
    labels = (rng.random(400) < 1 / (1 + np.exp(-odds))).astype(int)
    np.savez(tmp_path / "p.npz", logits=4 * odds, labels=labels, split=np.arange(400) % 2)
    return tmp_path


def start(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder to its end."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_starts_and_ends(folder, name) -> None:
    """With an exit code, results on stdout and failures on stderr; a process ends as the call within one."""
    arguments, code, words = CALLS[name]
    runs = [call(*arguments, folder=folder)]
    if name in {"check", "fit", "methods"}:  # of each exit code one
        runs.append(start(folder, *START, *arguments))
    for done in runs:
        assert done.returncode == code, done.stdout + done.stderr
        assert words in (done.stderr if code == 2 else done.stdout)
        assert "Traceback" not in done.stderr


def test_the_installed_command_is_this_one() -> None:
    """``calibrant`` on the path calls what the tests call."""
    from importlib.metadata import entry_points

    (command,) = entry_points(group="console_scripts", name="calibrant")
    assert command.value == "calibrant.__main__:start"


INTERRUPT = "os.kill(os.getpid(), signal.SIGINT)"


@pytest.mark.parametrize(
    "source",
    [
        f"try:\n    {INTERRUPT}\n    [0] * 9\nexcept BaseException:\n    pass\n",
        f"for _ in range(2):\n    {INTERRUPT}\n    time.sleep(0.2)\ntime.sleep(400)\n",
    ],
    ids=["once", "twice"],
)
def test_the_keyboard_waits_for_imports(folder, source) -> None:
    """Modules that swallow Ctrl-C are imported to their end; who presses it twice does not wait for it.

    The sleep after it is longer than the process may live: the signal must end it.
    """
    (folder / "pressed.py").write_text("import os, signal, time\n" + source)
    code = (
        HEARS + "import calibrant.cli.evaluate as command;"
        "command.check_inputs = lambda *_: (__import__('pressed'), __import__('time').sleep(400));"
        "from calibrant.__main__ import start; start()"
    )
    done = start(folder, sys.executable, "-c", code, "evaluate", "p.npz")
    assert done.returncode == 130, done.stderr
    assert done.stderr.startswith("calibrant: stopped; ")


def test_the_keyboard_stops_it_before_it_is_imported(folder) -> None:
    code = (
        HEARS + "import sys;"
        "from calibrant.__main__ import start\n"
        "class Presses:\n"
        "    def find_spec(self, *_):\n"
        "        sys.meta_path.remove(self)\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Presses())\n"
        "start()"
    )
    done = start(folder, sys.executable, "-c", code, "--version")
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    assert done.stderr == "calibrant: stopped; nothing half-written is left behind.\n"


def test_the_second_interrupt_is_the_last(folder) -> None:
    """What ended the import by a second Ctrl-C is not interrupted a third time while it says so."""
    (folder / "hangs.py").write_text(
        "import signal\nfor _ in range(2):\n    signal.raise_signal(signal.SIGINT)\n"
    )
    code = (
        HEARS + "import time, calibrant.cli.interrupts as interrupts;"
        "interrupts.hold_while_importing()\n"
        "try:\n    import hangs\nexcept KeyboardInterrupt:\n    time.sleep(10 * interrupts._PAUSE)\n"
        "    print('undisturbed')"
    )
    done = start(folder, sys.executable, "-c", code)
    assert done.stdout == "undisturbed\n", done.stderr


def test_an_interrupt_that_nobody_hears_comes_again(folder) -> None:
    """A signal that arrives just before a blocking call does not end the call."""
    (folder / "pressed.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    code = (
        HEARS + "import sys, time, calibrant.cli.interrupts as interrupts;"
        "sys.path.insert(0, '.'); interrupts.hold_while_importing();"
        "send, sent = signal.pthread_kill, []\n"
        "signal.pthread_kill = lambda *signal: send(*signal) if sent else sent.append(1)\n"
        "try:\n    import pressed\n    time.sleep(400)\nexcept KeyboardInterrupt:\n    print('stopped')"
    )
    assert start(folder, sys.executable, "-c", code).stdout == "stopped\n"


@pytest.mark.skipif(shutil.which("bash") is None or os.name == "nt", reason="needs bash")
def test_bash_completes_commands_and_options(tmp_path, monkeypatch) -> None:
    """By the script that `calibrant --install-completion` installs; zsh and fish have theirs."""
    for shell in ("zsh", "fish", "bash"):
        monkeypatch.setenv("_CALIBRANT_COMPLETE", f"source_{shell}")
        script = start(tmp_path, *START).stdout
        assert f"_CALIBRANT_COMPLETE=complete_{shell}" in script
    monkeypatch.delenv("_CALIBRANT_COMPLETE")
    assert start(tmp_path, "bash", "-n", "-c", script).returncode == 0
    (tmp_path / "calibrant").write_text(f'#!/bin/sh\nexec {shlex.join(START)} "$@"\n')
    (tmp_path / "calibrant").chmod(0o755)
    for words, completed in (("calibrant ev", "evaluate"), ("calibrant check --max-sm", "--max-smce")):
        press_tab = f"COMP_WORDS=({words}) COMP_CWORD={words.count(' ')}; _calibrant_completion ./calibrant"
        done = start(tmp_path, "bash", "-c", f"{script}\n{press_tab}\necho ${{COMPREPLY[@]}}")
        assert done.stdout.strip() == completed
