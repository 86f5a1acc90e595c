"""How the cost of a metric grows with the number of samples: ECE, classwise, exact smCE and smECE.

Run as ``python benchmarks/growth.py`` (N = 1e4 ... 1e7, one thread; at the top minutes and 3 GB; or
``--most 1000000``). Writes ``results/growth.json`` and ``docs/images/growth.png``. The exponent is the slope
of log time against log N, fitted by least squares over the sizes from 1e5 on, where what every call costs no
longer counts: 1 is linear.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from environment import environment, write

from calibrant import metrics

NUM_CLASSES = 10
SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
FITTED_FROM = 100_000
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "growth.png"
Metric = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
METRICS: dict[str, Metric] = {
    "ECE": metrics.expected_calibration_error,
    "classwise": metrics.classwise_calibration_error,
    "smCE": metrics.smooth_calibration_error,
    "smECE": metrics.smooth_ece,
}


def data(num_samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Over-confident probabilities of ten classes in float32, and labels."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(num_samples, NUM_CLASSES, generator=generator)
    noise = torch.rand(logits.shape, generator=generator).clamp_(min=1e-30).log_().neg_().log_().neg_()
    return (1.5 * logits).softmax(dim=1), (logits + noise).argmax(dim=1)


def seconds(metric: Metric, probs: torch.Tensor, labels: torch.Tensor, repeats: int) -> float:
    """Median time of a call; the first, which compiles and warms, is not counted."""
    times: list[float] = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        metric(probs, labels)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def exponent(sizes: list[int], times: list[float]) -> float:
    """Slope of log time against log size."""
    chosen = [(np.log(n), np.log(t)) for n, t in zip(sizes, times, strict=True) if n >= FITTED_FROM]
    if len(chosen) < 2:
        return float("nan")
    return float(np.polyfit(*np.array(chosen).T, deg=1)[0])


def draw(rows: dict[str, dict[str, Any]], path: Path) -> None:
    """Time against size, both logarithmic, with the fitted exponent in the legend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for (name, row), marker in zip(rows.items(), "osD^", strict=False):
        axes.loglog(
            row["sizes"], row["seconds"], marker=marker, label=f"{name}: N$^{{{row['exponent']:.2f}}}$"
        )
    axes.set_xlabel("samples")
    axes.set_ylabel("seconds, one thread")
    axes.grid(which="major", alpha=0.3)
    axes.legend(frameon=False, title=f"{NUM_CLASSES} classes")
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="largest number of samples")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sizes = [size for size in SIZES if size <= arguments.most]
    times: dict[str, list[float]] = {name: [] for name in METRICS}
    for size in sizes:
        probs, labels = data(size)
        for name, metric in METRICS.items():
            times[name].append(seconds(metric, probs, labels, arguments.repeats))
            print(f"{name:10s} N = {size:>10,} {1e3 * times[name][-1]:10.2f} ms", flush=True)
    rows = {
        name: {"sizes": sizes, "seconds": each, "exponent": exponent(sizes, each)}
        for name, each in times.items()
    }
    content = {
        "environment": environment("calibrant", "torch", "numpy", "numba"),
        "num_classes": NUM_CLASSES,
        "fitted_from": FITTED_FROM,
        "repeats": arguments.repeats,
        "metrics": rows,
    }
    print("written:", write("growth", content))
    draw(rows, PICTURE)
    print("written:", PICTURE)


if __name__ == "__main__":
    main()
