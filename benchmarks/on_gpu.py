"""Losses and metrics on a GPU: every loss forward and backward, and the calibration errors; time and memory.

Run: ``python benchmarks/on_gpu.py``; ``--device cpu --repeats 1`` tries it without a GPU and writes nothing.
Losses have the sizes of ``losses.py`` and stand beside ``torch.nn.functional.cross_entropy`` on the same
device; the metrics' values beside those on the CPU. A GPU's clock is read after it has finished.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Literal

import torch
from environment import environment, write
from torch.nn import functional

from calibrant import losses, metrics
from losses import BASE, SIZES
from losses import data as logits_and_labels

METRICS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "ECE": metrics.expected_calibration_error,
    "ECE, bins of equal mass": metrics.adaptive_calibration_error,
    "classwise ECE": metrics.classwise_calibration_error,
    "Brier score": metrics.brier_score,
    "NLL": metrics.negative_log_likelihood,
}
SAMPLES, CLASSES = 1_000_000, 10
LAST_LAYER = 4096, 2048, 128_256  # rows, width, classes


def timed(call: Callable[[], torch.Tensor], device: str, repeats: int) -> dict[str, float | None]:
    """Median microseconds, and the most memory taken at once, of a call; the first one warms up."""
    seconds: list[float] = []
    value = call()
    if device.startswith("cuda"):
        _finish(device)
        torch.cuda.reset_peak_memory_stats()
    for _ in range(repeats):
        _finish(device)
        start = time.perf_counter()
        call()
        _finish(device)
        seconds.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() if device.startswith("cuda") else None
    return {"microseconds": 1e6 * statistics.median(seconds), "peak_bytes": peak, "value": value.item()}


def _finish(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def of_losses(device: str, repeats: int) -> dict[str, object]:
    """Every loss, forward and backward, at both sizes."""
    found: dict[str, object] = {}
    for size in SIZES:
        logits, labels = logits_and_labels(size)
        rows = {BASE: timed(_step(functional.cross_entropy, logits, labels, device), device, repeats)}
        bits = (torch.arange(logits.numel()).reshape(logits.shape) + labels.unsqueeze(1)) % 2
        for name in losses.available():
            target = bits if name.startswith("multilabel") else labels
            step = _step(losses.build(name).to(device), logits, target, device)
            rows[name] = timed(step, device, repeats)
        base = rows[BASE]["microseconds"] or 1.0
        found[size] = {
            name: {**row, "times_cross_entropy": (row["microseconds"] or 0.0) / base}
            for name, row in rows.items()
        }
    return found


def _step(
    loss: Callable[..., torch.Tensor], logits: torch.Tensor, labels: torch.Tensor, device: str
) -> Callable[[], torch.Tensor]:
    there, target = logits.detach().to(device).requires_grad_(), labels.to(device)

    def step() -> torch.Tensor:
        value = loss(there, target)
        torch.autograd.grad(value, there)
        return value

    return step


def of_metrics(device: str, repeats: int) -> dict[str, object]:
    """The metrics of a million samples, and how far their values are from those on the CPU."""
    generator = torch.Generator().manual_seed(0)
    probs = torch.randn(SAMPLES, CLASSES, generator=generator).mul(2).softmax(1)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=generator)
    there, target = probs.to(device), labels.to(device)
    found: dict[str, object] = {}
    for name, metric in METRICS.items():
        row = timed(lambda metric=metric: metric(there, target), device, repeats)
        found[name] = {**row, "from_cpu": abs((row["value"] or 0.0) - metric(probs, labels).item())}
    return found


def of_last_layer(device: str, repeats: int) -> dict[str, object]:
    """The focal loss of a last layer in bfloat16, forward and backward, by torch and by the Triton kernel."""
    rows, width, classes = LAST_LAYER if device.startswith("cuda") else (64, 32, 1000)
    generator = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(each, width, generator=generator) for each in (rows, classes))
    labels = torch.randint(classes, (rows,), generator=generator).to(device)
    layer = [each.to(device, torch.bfloat16).requires_grad_() for each in (hidden / width**0.5, weight)]

    def step(kernel: Literal["torch", "triton"]) -> torch.Tensor:
        value = losses.linear_focal_loss(*layer, labels, kernel=kernel)
        torch.autograd.grad(value, layer)
        return value

    kernels: tuple[Literal["torch", "triton"], ...] = ("torch", "triton")
    if not device.startswith("cuda"):
        kernels = ("torch",)
    return {kernel: timed(lambda kernel=kernel: step(kernel), device, repeats) for kernel in kernels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", type=int, default=41)
    arguments = parser.parse_args()
    content = {
        "environment": environment("calibrant", "torch"),
        "device": torch.cuda.get_device_name() if arguments.device.startswith("cuda") else arguments.device,
        "repeats": arguments.repeats,
        "sizes": {"samples": SAMPLES, "classes": CLASSES, "last layer": LAST_LAYER},
        "losses": of_losses(arguments.device, arguments.repeats),
        "last layer": of_last_layer(arguments.device, arguments.repeats),
        "metrics": of_metrics(arguments.device, arguments.repeats),
    }
    if arguments.device == "cpu":
        print(json.dumps(content, indent=1))
    else:
        print("written:", write("on_gpu", content))


if __name__ == "__main__":
    main()
