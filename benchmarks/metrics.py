"""Calibration metrics against the peers: time, value and peak memory.

Run in the environment of ``benchmarks/peers.txt``: ``peers/bin/python benchmarks/metrics.py``.

Every task runs ours and the peers' in turn in one process, at one thread and at two; medians and ratios are
kept, and the value that each returned, since a fast wrong number is worth nothing. Peak memory is measured in
a fresh process per entry, above what the inputs and the imports take (Linux).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from environment import environment, write
from memory import forget_peak, resident

Entry = Callable[[], float]
PACKAGES = ("calibrant", "torch", "numpy", "torchmetrics", "netcal", "relplot", "pycalib", "scikit-learn")
TASKS: dict[str, tuple[int, int]] = {
    "ECE, 15 bins": (1_000_000, 10),
    "ECE, 15 bins, many classes": (100_000, 1000),
    "classwise ECE": (100_000, 100),
    "ECE, 15 bins of equal mass": (1_000_000, 2),
    "exact smooth calibration error": (100_000, 2),
    "smECE": (1_000_000, 2),
}
# How often faster than the best peer ours must be, or the most milliseconds it may take.
BARS = {
    "ECE, 15 bins": {"times_faster_than": {"torchmetrics": 2}, "value_within": 1e-9},
    "ECE, 15 bins, many classes": {
        "times_faster_than": {"netcal": 4},
        "bytes_per_sample": 200,  # memory grows with N alone; the table itself has 4000
        "value_within": 1e-9,
    },
    "classwise ECE": {
        "times_faster_than": {"pycalib": 5, "torchmetrics, per class": 5},
        "value_within": 1e-9,
    },
    "ECE, 15 bins of equal mass": {"times_faster_than": {"netcal": 2}},
    "exact smooth calibration error": {"milliseconds": 50},
    "smECE": {"times_faster_than": {"relplot": 4}},
}


def data(task: str) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities ``(N, C)`` in float32, over-confident, and labels."""
    num_samples, num_classes = TASKS[task]
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((num_samples, num_classes), dtype=np.float32) * 2
    noise = rng.gumbel(size=logits.shape).astype(np.float32)
    labels = (logits + noise).argmax(axis=1)
    sharp = np.exp(1.5 * logits - (1.5 * logits).max(axis=1, keepdims=True))
    return sharp / sharp.sum(axis=1, keepdims=True), labels


def entries(task: str) -> dict[str, Entry]:
    """Ours first, then the peers', each by its own public interface on the form of data it asks for."""
    probs, labels = data(task)
    tensor, target = torch.from_numpy(probs), torch.from_numpy(labels)
    confidence, correct = probs.max(axis=1), (probs.argmax(axis=1) == labels).astype(np.int64)

    from calibrant import metrics

    if task.startswith("ECE, 15 bins") and "mass" not in task:
        from netcal.metrics import ECE
        from torchmetrics.functional.classification import multiclass_calibration_error

        found: dict[str, Entry] = {
            "calibrant": lambda: metrics.expected_calibration_error(tensor, target).item(),
            "torchmetrics": lambda: multiclass_calibration_error(tensor, target, probs.shape[1]).item(),
            "netcal": lambda: float(ECE(15).measure(probs, labels)),
        }
        if probs.shape[1] == 10:
            import relplot

            found["relplot, given confidences"] = lambda: relplot.metrics.binnedECE(
                confidence, correct, nbins=15
            )
        return found
    if task == "classwise ECE":
        from pycalib.metrics import classwise_ECE
        from torchmetrics.functional.classification import binary_calibration_error

        def per_class() -> float:
            columns = range(probs.shape[1])
            return statistics.fmean(
                binary_calibration_error(tensor[:, k], (target == k).long()).item() for k in columns
            )

        return {
            "calibrant": lambda: metrics.classwise_calibration_error(tensor, target).item(),
            "pycalib": lambda: float(classwise_ECE(labels, probs, bins=15)),
            "torchmetrics, per class": per_class,
        }
    if task == "ECE, 15 bins of equal mass":
        from netcal.metrics import ECE

        return {
            "calibrant": lambda: metrics.adaptive_calibration_error(tensor, target).item(),
            "netcal": lambda: float(ECE(15, equal_intervals=False).measure(confidence, correct)),
        }
    if task == "exact smooth calibration error":
        return {"calibrant": lambda: metrics.smooth_calibration_error(tensor, target).item()}
    import relplot

    return {
        "calibrant": lambda: metrics.smooth_ece(tensor, target).item(),
        "relplot, given confidences": lambda: float(relplot.smECE(confidence, correct)),
    }


def reference(task: str) -> float | None:
    """The value in float64 by a few lines of numpy, where they say all."""
    if task not in {"ECE, 15 bins", "ECE, 15 bins, many classes", "classwise ECE"}:
        return None
    probs, labels = data(task)

    def error(stated: np.ndarray, happened: np.ndarray) -> float:
        stated = stated.astype(np.float64)
        bins = np.maximum(np.searchsorted(np.arange(16) / 15, stated, side="left") - 1, 0)
        return float(np.abs(np.bincount(bins, happened - stated, 15)).sum() / len(stated))

    if task == "classwise ECE":
        return statistics.fmean(error(column, labels == k) for k, column in enumerate(probs.T))
    return error(probs.max(axis=1), probs.argmax(axis=1) == labels)


def timed(task: str, threads: int, repeats: int) -> dict[str, dict[str, float]]:
    """Median seconds and the value of every entry, taken in turn."""
    torch.set_num_threads(threads)
    found = entries(task)
    values = {name: entry() for name, entry in found.items()}  # also warms caches and compilers
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(repeats):
        for name, entry in found.items():
            start = time.perf_counter()
            entry()
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    ours = medians["calibrant"]
    return {
        name: {"milliseconds": 1e3 * medians[name], "times_ours": medians[name] / ours, "value": values[name]}
        for name in found
    }


def peak_megabytes(task: str, name: str) -> float:
    """Peak memory above inputs and imports, in a process of its own."""
    command = [sys.executable, __file__, "--peak", task, name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def print_peak(task: str, name: str) -> None:
    """Run one entry once for imports and compilers, forget that peak, run it again and print the new one."""
    entry = entries(task)[name]
    entry()
    forget_peak()
    before = resident("VmRSS")
    entry()
    print((resident("VmHWM") - before) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--peak", nargs=2, metavar=("TASK", "NAME"))
    arguments = parser.parse_args()
    if arguments.peak:
        print_peak(*arguments.peak)
        return
    results = {}
    for task, (num_samples, num_classes) in TASKS.items():
        by_threads = {str(threads): timed(task, threads, arguments.repeats) for threads in (1, 2)}
        memory = {name: peak_megabytes(task, name) for name in by_threads["1"]}
        results[task] = {
            "num_samples": num_samples,
            "num_classes": num_classes,
            "bar": BARS[task],
            "threads": by_threads,
            "peak_megabytes": memory,
            "reference": reference(task),
        }
        print(task, json.dumps(results[task], indent=1))
    print("written:", write("metrics", {"environment": environment(*PACKAGES), "tasks": results}))


if __name__ == "__main__":
    main()
