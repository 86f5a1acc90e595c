"""Sweeps in a process of their own, to be ended before their time; that process runs this file."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from calibrant_lab.sweep.engines import build_engine
from calibrant_lab.sweep.store import Store
from calibrant_lab.sweep.sweep import sweep
from toy_task import toys


def begin_sweep(
    folder: Path, *, grid: Path | None = None, engine: str = "pool(jobs=2)", **axes: list[Any]
) -> subprocess.Popen[bytes]:
    """A sweep of a grid, or of toys over axes, with the workers that it has, into ``store`` in the folder."""
    wanted = json.dumps(axes) if grid is None else str(grid)
    command = [sys.executable, __file__, str(folder / "store"), engine, wanted]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


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


if __name__ == "__main__":
    place, engine, wanted = sys.argv[1:]
    if wanted.endswith(".toml"):
        from calibrant_lab.sweep.grid import load_grid  # which imports torch

        items = load_grid(wanted).items()
    else:
        items = toys(**json.loads(wanted))
    sweep(items, Store(place), build_engine(engine))
