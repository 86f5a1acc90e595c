"""How the cost of a fit grows with the number of samples and of classes.

Run as ``python benchmarks/growth_calibrators.py`` (one thread; N = 1e3 ... 1e6 at 10 classes, then
C = 2 ... 1000 at 5000 samples; some minutes, or ``--most-samples 30000 --most-classes 100``). A calibrator
whose fit took longer than ``--patience`` seconds is not tried on more. Writes
``results/growth_calibrators.json`` and ``docs/images/growth-calibrators.png``. The exponent is the slope of
the logarithm of time against that of size, fitted by least squares over the sizes from the third on: 1 is
linear.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from environment import environment, write

from calibrant.calibrators import build

FEW_CLASSES, FEW_SAMPLES = 10, 5_000
SAMPLES = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
CLASSES = (2, 3, 10, 32, 100, 316, 1_000)
LEFT_OUT = 2  # of the sizes: there what every call costs counts still
CALIBRATORS = {
    "temperature": "temperature, NLL",
    'temperature(objective="ece")': "temperature, ECE",
    "focal-temperature": "focal temperature, NLL",
    'focal-temperature(objective="ece")': "focal temperature, ECE",
    "vector": "vector",
    "structured-matrix": "structured matrix",
    "dirichlet": "Dirichlet",
    "ensemble-temperature": "ensemble temperature",
    "isotonic": "isotonic",
    "bayesian-binning": "Bayesian binning",
}
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "growth-calibrators.png"


def data(num_samples: int, num_classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Over-confident logits in float32, and labels."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(num_samples, num_classes, generator=generator)
    noise = torch.rand(logits.shape, generator=generator).clamp_(min=1e-30).log_().neg_().log_().neg_()
    return 1.8 * logits, (logits + noise).argmax(dim=1)


def seconds(text: str, logits: torch.Tensor, labels: torch.Tensor, repeats: int) -> float:
    """Median time of a fit; the first, which compiles and warms, is not counted unless it took seconds."""
    times: list[float] = []
    while len(times) <= repeats:
        start = time.perf_counter()
        build(text).fit(logits, labels)
        times.append(time.perf_counter() - start)
        if times[-1] > 2:
            return times[-1]
    return statistics.median(times[1:])


def exponent(sizes: Sequence[int], times: Sequence[float], left_out: int) -> float | None:
    """Slope of log time against log size, beyond the smallest sizes."""
    chosen = np.log([sizes[left_out:], times[left_out:]])
    return float(np.polyfit(*chosen, deg=1)[0]) if chosen.shape[1] > 1 else None


def measure(cells: dict[int, tuple[int, int]], repeats: int, patience: float) -> dict[str, dict[str, Any]]:
    """Times of every calibrator by size, as far as patience goes; a cell is N and C."""
    rows: dict[str, dict[str, Any]] = {text: {"sizes": [], "seconds": []} for text in CALIBRATORS}
    for size, (num_samples, num_classes) in cells.items():
        logits, labels = data(num_samples, num_classes)
        for text, row in rows.items():
            if row["seconds"] and row["seconds"][-1] > patience:
                continue
            row["seconds"].append(seconds(text, logits, labels, repeats))
            row["sizes"].append(size)
            print(
                f"{text:40s} N = {num_samples:>9,} C = {num_classes:>5,} {1e3 * row['seconds'][-1]:10.1f} ms",
                flush=True,
            )
    for row in rows.values():
        row["exponent"] = exponent(row["sizes"], row["seconds"], LEFT_OUT)
    return rows


def draw(panels: dict[str, dict[str, dict[str, Any]]], path: Path) -> None:
    """Time against size, both logarithmic, one panel for N and one for C; exponents in the legends."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    titles = {
        "samples": ("samples", f"{FEW_CLASSES} classes"),
        "classes": ("classes", f"{FEW_SAMPLES:,} samples"),
    }
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    for axes, (name, rows) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        letter = "N" if name == "samples" else "C"
        for place, (text, row) in enumerate(rows.items()):
            power = "" if row["exponent"] is None else f": {letter}$^{{{row['exponent']:.2f}}}$"
            axes.loglog(
                row["sizes"],
                row["seconds"],
                marker="osD^vPX*<>"[place],
                markersize=4,
                label=f"{CALIBRATORS[text]}{power}",
            )
        ticks = sorted({size for row in rows.values() for size in row["sizes"]})
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], fontsize="small")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"{titles[name][0]} ({titles[name][1]})")
        axes.grid(which="major", alpha=0.3)
        axes.legend(
            frameon=False, fontsize="x-small", ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.13)
        )
    figure.axes[0].set_ylabel("seconds of a fit, one thread")
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--most-samples", type=int, default=SAMPLES[-1])
    parser.add_argument("--most-classes", type=int, default=CLASSES[-1])
    parser.add_argument("--patience", type=float, default=5.0)
    parser.add_argument("--out", type=Path, default=PICTURE, help="where the picture goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    by_samples = {n: (n, FEW_CLASSES) for n in SAMPLES if n <= arguments.most_samples}
    by_classes = {c: (FEW_SAMPLES, c) for c in CLASSES if c <= arguments.most_classes}
    panels = {
        "samples": measure(by_samples, arguments.repeats, arguments.patience),
        "classes": measure(by_classes, arguments.repeats, arguments.patience),
    }
    draw(panels, arguments.out)
    print("written:", arguments.out)
    if arguments.out != PICTURE:
        return
    content = {
        "environment": environment("calibrant", "torch", "numpy", "numba"),
        "num_classes": FEW_CLASSES,
        "num_samples": FEW_SAMPLES,
        "repeats": arguments.repeats,
        "patience": arguments.patience,
        "calibrators": panels,
    }
    print("written:", write("growth_calibrators", content))


if __name__ == "__main__":
    main()
