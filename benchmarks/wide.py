"""Time and memory of evaluations and fits of very many classes, from ``.npy`` files that are made first.

Run as ``python benchmarks/wide.py`` (2000 × 50 000 in float16, 200 MB, and 1000 × 200 000, 400 MB; ten
minutes on two idle cores; ``--sizes 400x20000`` for less). Each piece of work runs in a fresh process, and
scores are read in pieces. Beside seconds stand the processor's own, which other processes on the machine do
not lengthen, and peak memory above that of the process with all it has imported (Linux). ``reading`` is the
file read once and nothing else; a fit tells how many passes over the scores it took. Writes
``results/wide.json`` with the load of the machine at the start.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from environment import environment, write
from memory import forget_peak, resident

from calibrant import evaluate
from calibrant.calibrators import build
from calibrant.calibrators.fitting import compiled_losses as _compiled  # noqa: F401  (its memory is an import's)
from calibrant.predictions import Predictions, open_predictions
from calibrant.reports import write_report

SIZES = ("2000x50000", "1000x200000")
SHARP = 1.6


def make(folder: Path, num_samples: int, num_classes: int) -> None:
    """Logits as of next tokens: few usual classes, some that the context suggests; too sharp."""
    rng = np.random.default_rng(0)
    logits = np.lib.format.open_memmap(folder / "logits.npy", "w+", np.float16, (num_samples, num_classes))
    usual = -1.05 * np.log(np.arange(1, num_classes + 1))
    labels = np.empty(num_samples, np.int64)
    for row in range(num_samples):
        true = usual + rng.normal(0, 1.5, num_classes)
        true[rng.integers(0, num_classes, 5)] += rng.gamma(1.0, 3.0)
        odds = np.exp(true - true.max()).cumsum()
        labels[row] = np.searchsorted(odds, rng.random() * odds[-1])
        logits[row] = SHARP * true
    logits.flush()
    np.save(folder / "labels.npy", labels)


def reading(given: Predictions) -> dict[str, Any]:
    """The scores, a piece after the other."""
    for start in range(0, given.num_samples, 40):
        given.scores_of(slice(start, start + 40))
    return {}


def evaluated(given: Predictions) -> dict[str, Any]:
    """All default arms, with JSON and report."""
    found = evaluate(given)
    with tempfile.TemporaryDirectory() as folder:
        write_report(found, Path(folder) / "report.html")
        size = (Path(folder) / "report.html").stat().st_size
    return {
        "arms": len(found.arms),
        "ece": found.arms[0].metrics["ece"].value,
        "json_kilobytes": len(found.to_json()) / 1000,
        "report_kilobytes": size / 1000,
    }


def judged(given: Predictions) -> dict[str, Any]:
    """As they came, without calibrators."""
    return {"ece": evaluate(given, calibrators=[]).arms[0].metrics["ece"].value}


def fitted(name: str) -> Callable[[Predictions], dict[str, Any]]:
    """A calibrator on all rows."""

    def fit(given: Predictions) -> dict[str, Any]:
        if given.labels is None:
            raise SystemExit("no labels")
        result = build(name).fit_in_pieces(given, given.labels).fit_result_
        return {"parameters": dict(result.parameters), "passes": result.steps, "read": result.message}

    return fit


WORK: dict[str, Callable[[Predictions], dict[str, Any]]] = {
    "reading": reading,
    "evaluate without calibrators": judged,
    "temperature": fitted("temperature"),
    "focal-temperature": fitted("focal-temperature"),
    "evaluate": evaluated,
}


def measured(name: str, folder: Path) -> dict[str, Any]:
    """One piece of work in this process, after a small one that imports what it needs."""
    warm = np.log(np.random.default_rng(0).dirichlet(np.ones(5), 400))
    WORK[name](Predictions(logits=warm, labels=np.arange(400) % 5))
    given = open_predictions(folder / "logits.npy", stream=True)
    forget_peak()
    before, start, begun = resident("VmRSS"), time.perf_counter(), time.process_time()
    found = WORK[name](given)
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - begun,
        "peak_megabytes": (resident("VmHWM") - before) / 1024,
        **found,
    }


def main() -> None:
    """Measure, and write."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sizes", nargs="+", default=SIZES)
    options.add_argument("--one", nargs=2, metavar=("NAME", "FOLDER"))
    given = options.parse_args()
    if given.one:
        print(json.dumps(measured(given.one[0], Path(given.one[1]))))
        return
    load, results = os.getloadavg()[0], {}
    for size in given.sizes:
        num_samples, num_classes = map(int, size.split("x"))
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), num_samples, num_classes)
            entries: dict[str, Any] = {}
            for name in WORK:
                command = [sys.executable, __file__, "--one", name, folder]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                entries[name] = json.loads(done.stdout)
                print(size, name, entries[name], flush=True)
            bytes_of_file = (Path(folder) / "logits.npy").stat().st_size
        results[f"{num_samples} x {num_classes}"] = {"file_megabytes": bytes_of_file / 2**20} | entries
    content = {"environment": environment("calibrant", "torch", "numpy"), "load_at_start": load}
    print("written:", write("wide", content | {"sizes": results}))


if __name__ == "__main__":
    main()
