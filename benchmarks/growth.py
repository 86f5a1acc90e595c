"""How CPU time grows with the size of the data, beside the known order of growth; one figure a group.

Run as ``python benchmarks/growth.py`` (one thread, about four minutes of processor time; ``--only losses
tokens`` for some groups, which keeps the others' results). Each piece of work runs at growing sizes, at
three at least, until a call takes more seconds than ``--patience``; works of a size take turns, and medians
of processor time are kept. The slope is that of the logarithm of time against that of size, fitted by least
squares over the larger half of the sizes, where what every call costs no longer counts: 1 is linear. Writes
``results/growth.json`` and ``docs/images/growth-GROUP.png``.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from environment import RESULTS, environment, write
from torch import Tensor, nn

from calibrant import Predictions, evaluate, losses, metrics
from calibrant.calibrators import build
from calibrant.curvature import hessian_trace, top_eigenvalues
from calibrant.losses import linear_focal_loss
from calibrant.predictions import predictions_of_top_k, top_k_of

IMAGES = RESULTS.parents[1] / "docs" / "images"
Call = Callable[[], object]


class Panel(NamedTuple):
    """Works whose time is measured against one size."""

    axis: str
    beside: str  # what is fixed
    sizes: tuple[int, ...]
    works: dict[str, float]  # the known order: time grows as this power of the size
    make: Callable[[str, int], Call]  # from a work's name and a size


def half_decades(fewest: int, most: int) -> tuple[int, ...]:
    """Sizes that grow by the root of ten."""
    return tuple(round(fewest * 10 ** (step / 2)) for step in range(round(2 * np.log10(most / fewest)) + 1))


@lru_cache(maxsize=1)
def data(num_samples: int, num_classes: int) -> tuple[Tensor, Tensor]:
    """Over-confident logits in float32, and labels."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(num_samples, num_classes, generator=generator)
    noise = torch.rand(logits.shape, generator=generator).clamp_(min=1e-30).log_().neg_().log_().neg_()
    return 1.8 * logits, (logits + noise).argmax(dim=1)


@lru_cache(maxsize=1)
def probabilities(num_samples: int, num_classes: int) -> tuple[Tensor, Tensor]:
    logits, labels = data(num_samples, num_classes)
    return logits.softmax(dim=1), labels


BINNED: dict[str, Callable[..., Any]] = {
    "ECE": metrics.expected_calibration_error,
    "adaptive ECE": metrics.adaptive_calibration_error,
    "classwise": metrics.classwise_calibration_error,
    "squared error, debiased": metrics.squared_calibration_error,
    "maximum": metrics.maximum_calibration_error,
    "top 5": metrics.top_k_calibration_error,
}
METRICS: dict[str, Callable[..., Any]] = BINNED | {
    "smCE": metrics.smooth_calibration_error,
    "smECE": metrics.smooth_ece,
    "Kolmogorov-Smirnov": metrics.kolmogorov_smirnov_test,
    "log loss": metrics.negative_log_likelihood,
    "Brier": metrics.brier_score,
}


def metric(name: str, num_samples: int, num_classes: int, **settings: int) -> Call:
    given = probabilities(num_samples, num_classes)
    return lambda: METRICS[name](*given, **settings)


def loss(name: str, num_samples: int, num_classes: int) -> Call:
    """Forward and backward."""
    logits, labels = data(num_samples, num_classes)
    found, wanted = losses.build(name), logits.clone().requires_grad_()
    given = nn.functional.one_hot(labels, num_classes) if name.startswith("multilabel") else labels
    return lambda: torch.autograd.grad(found(wanted, given), wanted)


def fit(name: str, num_samples: int, num_classes: int) -> Call:
    given = data(num_samples, num_classes)
    return lambda: build(name).fit(*given)


def judge(name: str, num_samples: int, num_classes: int, bootstrap: int = 1000) -> Call:
    logits, labels = data(num_samples, num_classes)
    settings: Any = {"calibrators": None if name == "with calibrators" else []}
    return lambda: evaluate(Predictions(logits=logits, labels=labels), bootstrap=bootstrap, **settings)


def token(name: str, vocabulary: int) -> Call:
    """Work on the next tokens of a language model: all their logits, or the 20 largest."""
    rows, width, kept = 256, 64, 20
    logits, labels = data(rows, vocabulary)
    if name == "focal loss of a last layer":
        generator = torch.Generator().manual_seed(0)
        hidden = torch.randn(rows, width, generator=generator, requires_grad=True)
        weight = torch.randn(vocabulary, width, generator=generator, requires_grad=True)
        return lambda: torch.autograd.grad(linear_focal_loss(hidden, weight, labels), (hidden, weight))
    if name == "fit of a temperature":
        return lambda: build("temperature").fit(logits, labels)
    if name == "ECE":
        return metric("ECE", rows, vocabulary)
    if name == "evaluation":
        return judge("as they came", rows, vocabulary)
    largest = logits.log_softmax(dim=1).topk(kept)

    def of_largest() -> object:
        given = predictions_of_top_k(top_k_of(*largest, num_classes=vocabulary), labels)
        return evaluate(given, calibrators=[])

    return of_largest


def curvature(name: str, width: int) -> Call:
    """Twenty products with the Hessian of a perceptron that has ``75 * width`` parameters."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, 10))
    batch = [(torch.randn(64, 64), torch.randint(10, (64,)))]
    if name == "trace":
        return lambda: hessian_trace(model, nn.CrossEntropyLoss(), batch, num_matvecs=20)
    return lambda: top_eigenvalues(model, nn.CrossEntropyLoss(), batch, tolerance=1e-300, max_products=20)


SORTS = 1 + 1 / math.log(100_000)  # N log N there
EACH_METRIC = dict.fromkeys(METRICS, 1.0)
LOSSES = dict.fromkeys(losses.available(), 1.0)
del LOSSES["cross-entropy"]  # torch's own
BY_SAMPLES = {
    "temperature": 1.0,
    'temperature(objective="ece")': 1.0,
    "focal-temperature": 1.0,
    'focal-temperature(objective="ece")': 1.0,
    "ensemble-temperature": 1.0,
    "vector": 1.0,
    "structured-matrix": 1.0,
    "dirichlet": 1.0,
    "isotonic": SORTS,
    "histogram": SORTS,
    "bayesian-binning": 4 / 3,
}
BY_CLASSES = dict.fromkeys(BY_SAMPLES, 1.0) | {"structured-matrix": 2.0, "dirichlet": 2.0}
TOKENS = {
    "focal loss of a last layer": 1.0,
    "fit of a temperature": 1.0,
    "ECE": 1.0,
    "evaluation": 1.0,
    "evaluation of the 20 largest": 0.0,
}
GROUPS = {
    "metrics": [
        Panel(
            "samples",
            "10 classes",
            half_decades(10_000, 1_000_000),
            EACH_METRIC | dict.fromkeys(("adaptive ECE", "smCE", "smECE", "Kolmogorov-Smirnov"), SORTS),
            lambda name, size: metric(name, size, 10),
        ),
        Panel(
            "classes",
            "3,000 samples",
            half_decades(10, 3_162),
            EACH_METRIC,
            lambda name, size: metric(name, 3_000, size),
        ),
        Panel(
            "bins",
            "100,000 samples of 10 classes",
            half_decades(10, 10_000),
            dict.fromkeys(BINNED, 0.0),
            lambda name, size: metric(name, 100_000, 10, num_bins=size),
        ),
    ],
    "losses": [
        Panel(
            "samples",
            "100 classes",
            half_decades(100, 100_000),
            LOSSES,
            lambda name, size: loss(name, size, 100),
        ),
        Panel(
            "classes",
            "500 samples",
            half_decades(10, 31_623),
            LOSSES,
            lambda name, size: loss(name, 500, size),
        ),
    ],
    "calibrators": [
        Panel(
            "samples",
            "10 classes",
            half_decades(1_000, 1_000_000),
            BY_SAMPLES,
            lambda name, size: fit(name, size, 10),
        ),
        Panel(
            "classes",
            "20,000 samples",
            half_decades(3, 316),
            BY_CLASSES,
            lambda name, size: fit(name, 20_000, size),
        ),
    ],
    "evaluation": [
        Panel(
            "samples",
            "10 classes, 1,000 resamples",
            half_decades(1_000, 100_000),
            {"as they came": 1.0, "with calibrators": 1.0},
            lambda name, size: judge(name, size, 10),
        ),
        Panel(
            "resamples",
            "5,000 samples of 10 classes",
            half_decades(100, 31_623),
            {"as they came": 1.0},
            lambda name, size: judge(name, 5_000, 10, bootstrap=size),
        ),
    ],
    "tokens": [Panel("vocabulary", "256 tokens", half_decades(3_162, 316_228), TOKENS, token)],
    "curvature": [
        Panel(
            "hidden units",
            "64 samples, 75 parameters a unit",
            half_decades(10, 31_623),
            {"top eigenvalue": 1.0, "trace": 1.0},
            curvature,
        )
    ],
}


def measure(panel: Panel, repeats: int, patience: float) -> dict[str, dict[str, Any]]:
    """Median processor seconds of every work by size, as far as patience goes, and their slopes."""
    rows: dict[str, dict[str, Any]] = {
        name: {"known": known, "sizes": [], "cpu_seconds": []} for name, known in panel.works.items()
    }
    for name in panel.works:
        panel.make(name, panel.sizes[0])()  # compiles
    for size in panel.sizes:
        going = [n for n, r in rows.items() if len(r["sizes"]) < 3 or r["cpu_seconds"][-1] < patience]
        calls = {name: panel.make(name, size) for name in going}
        times: dict[str, list[float]] = {name: [] for name in going}
        for _ in range(repeats + 1):
            for name, call in calls.items():
                if sum(times[name]) > patience:
                    continue
                begun = time.process_time()
                call()
                times[name].append(time.process_time() - begun)
        for name, each in times.items():
            rows[name]["sizes"].append(size)
            # The first warms, and counts only where it is alone.
            rows[name]["cpu_seconds"].append(statistics.median(each[1:] or each))
    for name, row in rows.items():
        half = min(len(row["sizes"]) // 2, len(row["sizes"]) - 2)
        chosen = np.log([row["sizes"][half:], row["cpu_seconds"][half:]])
        row["slope"] = float(np.polyfit(*chosen, deg=1)[0])
        print(f"{panel.axis:12s} {name:36s} {row['slope']:6.2f} of {row['known']:.2f}", flush=True)
    return rows


def draw(group: str, panels: dict[str, dict[str, Any]]) -> None:
    """Time against size, both logarithmic, a panel for each size; slopes in the legends."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels) + 1, 5.4), layout="constrained")
    for axes, (axis, panel) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for place, (name, row) in enumerate(panel["works"].items()):
            label = f"{name}: {row['slope']:.2f} ({row['known']:.3g})"
            axes.loglog(row["sizes"], row["cpu_seconds"], marker="osD^vPX*<>hpd8x+"[place], ms=4, label=label)
        axes.set(xlabel=f"{axis} ({panel['beside']})", ylabel="CPU seconds")
        axes.grid(which="major", alpha=0.3)
        axes.legend(
            frameon=False,
            fontsize="x-small",
            ncols=2,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.13),
            title="slope (known)",
        )
    figure.savefig(IMAGES / f"growth-{group}.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=1.0)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), metavar="GROUP")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path = RESULTS / "growth.json"
    groups = json.loads(path.read_text(encoding="utf-8")).get("groups", {}) if path.exists() else {}
    for name in arguments.only:
        groups[name] = {
            panel.axis: {
                "beside": panel.beside,
                "patience": arguments.patience,
                "works": measure(panel, arguments.repeats, arguments.patience),
            }
            for panel in GROUPS[name]
        }
        draw(name, groups[name])
        content = {
            "environment": environment("calibrant", "torch", "numpy", "numba"),
            "repeats": arguments.repeats,
            "groups": groups,
        }
        print("written:", write("growth", content))


if __name__ == "__main__":
    main()
