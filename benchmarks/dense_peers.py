"""Calibration errors of segmentation outputs, beside torchmetrics and MONAI: values and CPU time.

Run as ``python benchmarks/dense_peers.py`` in the environment of ``peers.txt`` (``--images 4`` of 512 × 512
positions and 19 classes; a peer that is not installed is left out). Writes ``results/dense_peers.json``.

- torchmetrics: the top label's ECE of all positions, those with the ignored label left out.
- MONAI: the ECE of each class in each image; it takes one-hot labels, which are made before the clock runs.

The reference adds up in float64. MONAI's bins hold their left ends, ours their right ends; no value lies on
an end.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from environment import environment, write
from torch import Tensor

from calibrant import metrics

IGNORED = 255
NUM_BINS = 15


def data(images: int, size: int, num_classes: int) -> tuple[Tensor, Tensor]:
    """Over-confident probabilities in float32, and labels."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn((images, num_classes, size, size), generator=generator)
    noise = torch.rand(logits.shape, generator=generator).clamp_(1e-30, 1 - 1e-7).log_().neg_().log_().neg_()
    return (1.5 * logits).softmax(dim=1), (logits + noise).argmax(dim=1)


def by_hand(probs: Tensor, outcomes: Tensor) -> float:
    """The error in float64 by sorting into bins, no function of ours."""
    p = probs.double()
    bins = torch.bucketize(p, torch.arange(1, NUM_BINS, dtype=torch.float64) / NUM_BINS)
    gaps = torch.zeros(NUM_BINS, dtype=torch.float64).index_add_(0, bins, outcomes.double() - p)
    return float(gaps.abs().sum() / len(p))


def timed(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median CPU milliseconds of each, interleaved."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if turn:  # the first compiles and warms
                times[name].append(time.process_time() - start)
    return {name: 1e3 * statistics.median(each) for name, each in times.items()}


def top_label(probs: Tensor, labels: Tensor, repeats: int) -> dict[str, Any]:
    """The ECE of all positions but the ignored ones."""
    labels = labels.clone()
    labels[:, :8] = IGNORED
    kept = labels != IGNORED
    confidence, predicted = probs.max(dim=1)
    reference = by_hand(confidence[kept], (predicted == labels)[kept])
    calls: dict[str, Callable[[], Any]] = {
        "calibrant": lambda: metrics.expected_calibration_error(probs, labels, ignore_index=IGNORED)
    }
    try:
        from torchmetrics.functional.classification import multiclass_calibration_error as theirs

        calls["torchmetrics"] = lambda: theirs(
            probs, labels, probs.shape[1], n_bins=NUM_BINS, norm="l1", ignore_index=IGNORED
        )
    except ImportError:
        pass
    off = {name: abs(float(call()) - reference) for name, call in calls.items()}
    return {"reference": reference, "off": off, "cpu_milliseconds": timed(calls, repeats)}


def each_class(probs: Tensor, labels: Tensor, repeats: int) -> dict[str, Any]:
    """The ECE of each class in each image."""
    num_classes = probs.shape[1]
    one_hot = torch.nn.functional.one_hot(labels, num_classes).movedim(-1, 1).float()
    reference = torch.tensor(
        [
            [by_hand(image[k].flatten(), truth[k].flatten() > 0) for k in range(num_classes)]
            for image, truth in zip(probs, one_hot, strict=True)
        ],
        dtype=torch.float64,
    )

    def ours() -> Tensor:
        pairs = zip(probs, labels, strict=True)
        return torch.stack(
            [metrics.classwise_calibration_error(p[None], y[None], average="none") for p, y in pairs]
        )

    calls: dict[str, Callable[[], Any]] = {"calibrant": ours}
    try:
        from monai.metrics.calibration import CalibrationErrorMetric

        metric = CalibrationErrorMetric(num_bins=NUM_BINS)
        calls["monai"] = lambda: metric._compute_tensor(probs, one_hot)
    except ImportError:
        pass
    off = {name: float((call().double() - reference).abs().max()) for name, call in calls.items()}
    return {"reference": float(reference.mean()), "off": off, "cpu_milliseconds": timed(calls, repeats)}


def main() -> None:
    """Measure and write."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--images", type=int, default=4)
    options.add_argument("--size", type=int, default=512)
    options.add_argument("--classes", type=int, default=19)
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    torch.set_num_threads(1)
    probs, labels = data(given.images, given.size, given.classes)
    content = {
        "environment": environment("calibrant", "torch", "torchmetrics", "monai"),
        "shape": list(probs.shape),
        "num_bins": NUM_BINS,
        "top label": top_label(probs, labels, given.repeats),
        "each class of each image": each_class(probs, labels, given.repeats),
    }
    for name in ("top label", "each class of each image"):
        print(name, content[name])
    write("dense_peers", content)


if __name__ == "__main__":
    main()
