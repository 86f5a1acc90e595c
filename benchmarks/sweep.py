"""What sweeps cost beside the runs themselves: time for each run, the index of a large store, memory.

Run: ``python benchmarks/sweep.py``, a few minutes. Runs of nothing and of a tenth of a second go through the
pool of two processes, and runs of nothing through Ray and submitit where they are installed; the index is
that of 10,000 results of a training of thirty epochs.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from environment import environment, write
from memory import forget_peak, resident

from calibrant_lab.sweep.engines import Engine, Pool, Ray, Serial, Submitit
from calibrant_lab.sweep.store import Store
from calibrant_lab.sweep.sweep import sweep
from calibrant_lab.sweep.tasks.task import (
    RESULT,
    Fingerprints,
    Item,
    Outcome,
    Settings,
    Task,
    Tell,
    make_item,
)

JOBS, SECONDS, EPOCHS, RESULTS = 2, 0.1, 30, 10_000
BAR = {
    "cpu_milliseconds_per_run": 10,
    "index_cpu_seconds": 5,
    "rebuild_cpu_seconds": 15,
    "driver_megabytes": 500,
}


class Nothing(Task):
    """Takes as long as it is told, and computes nothing."""

    name: ClassVar[str] = "nothing"
    version: ClassVar[int] = 1

    def complete(self, settings: Settings) -> Settings:
        """All there is."""
        return settings

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        """Wait."""
        _ = folder, tell
        time.sleep(settings["seconds"])
        return Outcome(metrics={RESULT: {"number": settings["number"]}})


def items(count: int, seconds: float) -> Sequence[Item]:
    settings = [{"number": number, "seconds": seconds} for number in range(count)]
    return [make_item(Nothing(), each, each, Fingerprints()) for each in settings]


def timed(engine: Engine, count: int, seconds: float) -> float:
    """Seconds of a sweep, with the start of its workers."""
    with tempfile.TemporaryDirectory() as folder, engine:
        store = Store(folder)
        began = time.perf_counter()
        sweep(items(count, seconds), store, engine)
        return time.perf_counter() - began


def far(count: int) -> dict[str, Any]:
    """Start and milliseconds a run of the engines for clusters, on this machine."""
    load = os.getloadavg()[0]
    start = timed(Ray(jobs=JOBS), JOBS, 0.0)
    ray = import_module("ray")
    ray.init(address="local", num_cpus=JOBS, include_dashboard=False, log_to_driver=False)
    timed(Ray(jobs=JOBS), JOBS, 0.0)  # starts its workers, which stay
    took = timed(Ray(jobs=JOBS), count, 0.0)
    ray.shutdown()
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        jobs = timed(Submitit(cluster="local", jobs=JOBS), 2 * JOBS, 0.0)
        os.chdir(here)
    return {
        "ray_start_seconds": start,
        "ray_milliseconds_per_run": 1000 * took / count,
        "ray_runs": count,
        "submitit_local_seconds_per_job": jobs / 2,
        "load_before": load,
    }


def result(number: int) -> dict[str, Any]:
    """What a training of thirty epochs leaves: as many settings, stages, quantities and rows as that has."""
    stages = ("uncalibrated", "temperature", "focal-temperature")
    row = {
        f"calibration_{name}": 0.123456789012345
        for name in ("accuracy", "nll", "ece", "temperature", "after")
    }
    return {
        "format": 1,
        "run": f"{number:020x}",
        "task": "training",
        "version": 1,
        "measures": 1,
        "status": "finished",
        "reason": None,
        "settings": {f"section.setting_{place}": f"value {place}" for place in range(75)} | {"seed": number},
        "axes": {"seed": number},
        "inputs": {"data": "0" * 64},
        "metrics": {
            stage: {f"quantity_{place}": 0.1 + place / 777 for place in range(27)} for stage in stages
        },
        "undefined": {},
        "parameters": {"temperature": {"temperature": 1.2345}},
        "wall_seconds": 12.3,
        "cpu_seconds": 12.1,
        "sessions": 1,
        "ended": "2026-01-01T00:00:00+00:00",
        "environment": {"torch": "2", "device": "cpu"},
        "more": {"counts": {"train": 1000}},
        "rows": [{"epoch": epoch, "train_loss": 0.123456789, **row} for epoch in range(EPOCHS)],
    }


def index() -> dict[str, float]:
    """CPU seconds to read 10,000 results one by one, and from an index that is there."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        for number in range(RESULTS):
            run = Path(folder, "runs", f"{number:020x}")
            run.mkdir()
            (run / "result.json").write_text(json.dumps(result(number), indent=1), encoding="utf-8")
        began = time.process_time()
        assert len(list(store.results())) == RESULTS  # noqa: S101
        rebuilt = time.process_time() - began
        times: list[float] = []
        for _ in range(3):
            began = time.process_time()
            assert len(list(Store(folder).results())) == RESULTS  # noqa: S101
            times.append(time.process_time() - began)
        size = Path(folder, "index.jsonl").stat().st_size / 1e6
        return {
            "results": RESULTS,
            "rebuild_cpu_seconds": rebuilt,
            "index_cpu_seconds": statistics.median(times),
            "index_megabytes": size,
        }


def main() -> None:
    empty = 500
    load = os.getloadavg()[0]
    start = timed(Pool(jobs=JOBS), JOBS, 0.0)
    began = time.process_time()
    timed(Serial(), empty, 0.0)
    cpu = 1000 * (time.process_time() - began) / empty
    overhead: dict[str, Any] = {
        "runs": empty,
        "jobs": JOBS,
        "pool_start_seconds": start,
        "pool_milliseconds_per_run": 1000 * (timed(Pool(jobs=JOBS), empty, 0.0) - start) / empty,
        "serial_milliseconds_per_run": 1000 * timed(Serial(), empty, 0.0) / empty,
        "cpu_milliseconds_per_run": cpu,
        "load_before": load,
    }
    print(overhead)
    count = 1000
    forget_peak()
    took = timed(Pool(jobs=JOBS), count, SECONDS)
    short = {
        "runs": count,
        "seconds_each": SECONDS,
        "jobs": JOBS,
        "seconds": took,
        "ideal": count * SECONDS / JOBS,
    }
    memory = resident("VmHWM") / 1024
    print(short, f"{memory:.0f} MB")
    found = index()
    print(found)
    content: dict[str, Any] = {
        "environment": environment("calibrant"),
        "overhead": overhead,
        "short_runs": {**short, "driver_megabytes": memory},
        "index": found,
        "bar": BAR,
    }
    if find_spec("ray") and find_spec("submitit"):
        content["clusters"] = far(500)
    print("written:", write("sweep", content))


if __name__ == "__main__":
    main()
