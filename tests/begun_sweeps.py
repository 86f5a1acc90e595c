"""Sweeps of toys in a process of their own, to be ended before their time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from calibrant_lab.sweep.store import Store
from command_line import START


def begin_sweep(folder: Path, grid: str, *, engine: str = "pool(jobs=2)") -> subprocess.Popen[bytes]:
    """``calibrant sweep`` of a grid, with the workers that it has, into ``store`` in the folder."""
    (folder / "grid.toml").write_text(grid, encoding="utf-8")
    options = [str(folder / "grid.toml"), "--store", str(folder / "store"), "--engine", engine]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*START, "sweep", *options], env=environment, **quiet)


def grid_of_toys(**axes: list[Any]) -> str:
    """The text of a grid of toys."""
    return 'task = "toy_task:Toy"\n[axes]\n' + "".join(f"{key} = {json.dumps(axes[key])}\n" for key in axes)


def end_sweep(process: subprocess.Popen[bytes], number: int, log: Path, *, after: int) -> None:
    """Send it a signal when so many runs have been begun, and wait for its end."""
    until = time.monotonic() + 90
    while not log.exists() or len(log.read_text().splitlines()) < after:
        assert time.monotonic() < until, "nothing was begun"
        time.sleep(0.01)
    process.send_signal(signal.Signals(number))
    process.wait()


def assert_released(store: Store) -> None:
    """The workers of a driver that has ended hold nothing."""
    until = time.monotonic() + 30
    while store.leases.held() and time.monotonic() < until:
        time.sleep(0.02)
    assert store.leases.held() == {}
