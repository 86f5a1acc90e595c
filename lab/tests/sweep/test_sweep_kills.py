"""Kill -9 of workers and drivers at many moments: no finished run is lost or done twice, and numbers stay."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from begun_sweeps import assert_released, begin_sweep
from calibrant_lab.sweep.engines import Serial
from calibrant_lab.sweep.grid import load_grid
from calibrant_lab.sweep.store import Store
from calibrant_lab.sweep.sweep import sweep
from toy_task import toys

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers in /proc"),
]

MOMENTS = int(os.environ.get("CALIBRANT_KILLS", "15"))
"""Set CALIBRANT_KILLS=100 for the whole count, which takes minutes."""
RUNS = 40


def start(folder: Path, first: int = 0) -> subprocess.Popen[bytes]:
    seeds = list(range(first, first + RUNS))
    return begin_sweep(folder, seed=seeds, log=[str(folder / "log")], seconds=[0.02], steps=[3])


def children(pid: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            named = b"spawn_main" in (entry / "cmdline").read_bytes()
        except (OSError, NotADirectoryError):
            continue
        if named and int(fields[1]) == pid:
            found.append(int(entry.name))
    return found


def kill(process: subprocess.Popen[bytes], rng: random.Random) -> None:
    """A worker, the driver, or the driver and all its workers at once, as when a machine goes down."""
    workers, which = children(process.pid), rng.choice(["worker", "driver", "all"])
    chosen = {"worker": workers[:1], "driver": [process.pid], "all": [process.pid, *workers]}[which]
    end(chosen)


def end(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def starts(folder: Path) -> Counter[str]:
    log = folder / "log"
    return Counter(line.split()[1] for line in log.read_text().splitlines()) if log.exists() else Counter()


def test_many_kills(tmp_path) -> None:
    rng, store, first, before = random.Random(0), Store(tmp_path / "store"), 0, Counter[str]()
    process = start(tmp_path)
    for _ in range(MOMENTS):
        time.sleep(rng.uniform(0, 0.8))
        finished = {str(store.result(run).settings["seed"]) for run in store.done()}
        began = starts(tmp_path)
        assert all(began[seed] == count for seed, count in before.items()), "a finished run was begun again"
        before = Counter({seed: began[seed] for seed in finished})
        kill(process, rng)
        if process.poll() is not None or not children(process.pid):
            process.wait()
            assert len(store.done()) >= len(finished), "a finished run was lost"
            first += RUNS * (len(store.done()) >= first + RUNS)
            process = start(tmp_path, first=first)
    process.kill()
    process.wait()
    assert_released(store)
    items = toys(seed=list(range(first + RUNS)), log=[str(tmp_path / "log")], steps=[3])
    assert sweep(items, store, Serial()).statuses == {"finished": len(items)}
    assert {each.settings["seed"]: each.value("square") for each in store.results()} == {
        item.settings["seed"]: 1.0 + item.settings["seed"] for item in items
    }


GRID = """
[recipe]
model = "mlp(widths=(16,), dropout=0.2)"
data = { train = 300, calibration = 100, test = 100 }
optimiser = { name = "adam" }
training = { epochs = 40, batch_size = 16 }
hardware = { accelerator = "cpu", threads = 1 }
evaluation = { calibrators = ["temperature"] }
[axes]
seed = [0, 1, 2, 3]
"""


def test_trainings_that_are_killed_end_in_the_same_bits(tmp_path) -> None:
    (tmp_path / "grid.toml").write_text(GRID, encoding="utf-8")
    items = load_grid(tmp_path / "grid.toml").items()
    undisturbed, store = Store(tmp_path / "undisturbed"), Store(tmp_path / "store")
    sweep(items, undisturbed, Serial())
    whole = {each.run: each for each in undisturbed.results()}
    rng = random.Random(1)
    for _ in range(2):
        process = begin_sweep(tmp_path, grid=tmp_path / "grid.toml")
        work = tmp_path / "store" / "work"
        until = time.monotonic() + 60
        while process.poll() is None and not list(work.glob("*/checkpoint.pt")) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 1.5))
        end([process.pid, *children(process.pid)])
        process.wait()
    sweep(items, store, Serial())
    found = {each.run: each for each in store.results()}
    assert found.keys() == whole.keys()
    assert len(found) == 4
    assert sum(each.sessions for each in found.values()) > 4, "nothing was resumed"
    for run, each in found.items():
        with (
            np.load(each.file("predictions.npz")) as here,
            np.load(whole[run].file("predictions.npz")) as there,
        ):
            assert all(np.array_equal(here[name], there[name]) for name in there.files)
        assert (each.metrics, each.rows) == (whole[run].metrics, whole[run].rows)
