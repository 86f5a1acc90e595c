"""The command line as a user meets it: arguments in, output and an exit code out."""

import contextlib
import functools
import importlib
import io
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import typer.main
import typer.testing

from calibrant.cli.main import run

# Typer reads the signatures of all commands for every call; those of one application stay as they are.
typer.main.get_command = typer.testing._get_command = functools.cache(typer.main.get_command)  # pyright: ignore

START = [sys.executable, "-c", "from calibrant.__main__ import start; start()"]
"""Starts the command in a process of its own; its arguments follow."""


def call(
    *arguments: str, folder: Path, code: int | None = None, closed: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run ``calibrant ARGUMENTS`` in a folder, within this process, and undo what it changed here.

    A fresh process spends seconds on imports before the command itself begins. What only a process of its own
    can show (how it starts, its exit code, Ctrl-C) is tested with ``START``. ``code`` is the exit code that
    it must have; ``closed`` leaves it no output, as ``>&- 2>&-`` does. A single argument is a whole line.
    """
    output, errors = io.StringIO(), io.StringIO()
    arguments = tuple(shlex.split(arguments[0])) if len(arguments) == 1 else arguments
    with (
        _surroundings_restored(folder, list(arguments)),
        contextlib.redirect_stdout(None if closed else output),
        contextlib.redirect_stderr(None if closed else errors),
    ):
        found = _exit_code()
    assert code in {None, found}, output.getvalue() + errors.getvalue()
    return subprocess.CompletedProcess(list(arguments), found, output.getvalue(), errors.getvalue())


def one_line(text: str) -> str:
    """An error as the library says it: what to do, which the command prints below, after a semicolon."""
    return re.sub(r"\.\n([A-Z`-])", lambda match: f"; {match[1].lower()}", text)


def _exit_code() -> int:
    try:
        run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@contextlib.contextmanager
def _surroundings_restored(folder: Path, arguments: list[str]) -> Iterator[None]:
    """The folder, arguments, filters of warnings and generators that a new process would begin with."""
    modules, environment = set(sys.modules), dict(os.environ)
    generators = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    threads, on_interrupt = torch.get_num_threads(), signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.chdir(folder)
        patch.setattr(sys, "path", [entry for entry in sys.path if entry])  # as the installed command has it
        importlib.invalidate_caches()
        patch.setattr(sys, "argv", ["calibrant", *arguments])
        _filter_warnings_as_python_does()
        try:
            yield
        finally:
            random.setstate(generators[0])
            np.random.set_state(generators[1])  # noqa: NPY002
            torch.set_rng_state(generators[2])
            torch.set_num_threads(threads)
            signal.signal(signal.SIGINT, on_interrupt)
            os.environ.clear()
            os.environ.update(environment)
            _forget_modules_of(folder, set(sys.modules) - modules)


def _filter_warnings_as_python_does() -> None:
    """The interpreter's own filters; those of the tests turn every warning into an error."""
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)


def _forget_modules_of(folder: Path, names: set[str]) -> None:
    """A module that the command imported from the folder must not be found by the next test."""
    for name in names:
        if (file := getattr(sys.modules[name], "__file__", None)) and Path(file).is_relative_to(folder):
            del sys.modules[name]
