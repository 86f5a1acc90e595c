"""The loss of a language model's last layer: all logits at once, against chunks of them.

Run: ``python benchmarks/linear_loss.py`` (some five minutes and 8 GiB). Nothing beside calibrant is needed.

Each entry runs forward and backward in a fresh process, in turn; medians are kept. Peak memory is that of the
process above inputs, weights and imports, and once more above the gradients too, which every entry leaves
behind (Linux). ``checkpointed`` is what one would write with torch alone: chunks whose logits are computed
again in the backward pass.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from environment import environment, write
from memory import forget_peak, resident
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from calibrant.losses import focal_loss, linear_focal_loss

Layer = tuple[Tensor, Tensor, Tensor]  # hidden, weight, labels
SIZES = {"small": (64, 32, 1000), "4096 x 128256": (4096, 2048, 128_256)}  # rows, width, classes
MEASURED = "4096 x 128256"
OURS, PLAIN = "calibrant linear_focal_loss", "focal_loss of all logits"
BAR = {"times_plain": 1.3, "peak_times_plain": 0.1, "value_within": 1e-5}
CHUNK = 256


def checkpointed(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    """Chunks by torch's own means."""

    def part(rows: Tensor, classes: Tensor) -> Tensor:
        return focal_loss(functional.linear(rows, weight), classes, reduction="sum")

    chunks = zip(hidden.split(CHUNK), labels.split(CHUNK), strict=True)
    sums: list[Any] = [checkpoint(part, rows, classes, use_reentrant=False) for rows, classes in chunks]
    return torch.stack(sums).sum() / len(labels)


ENTRIES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    PLAIN: lambda h, w, t: focal_loss(functional.linear(h, w), t),
    "cross-entropy of all logits": lambda h, w, t: functional.cross_entropy(functional.linear(h, w), t),
    "checkpointed": checkpointed,
    OURS: linear_focal_loss,
}


def layer(size: str) -> Layer:
    """A last layer in float32 and labels that it knows something of."""
    num_rows, width, num_classes = SIZES[size]
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(num_classes, width, generator=generator)
    labels = torch.randint(num_classes, (num_rows,), generator=generator)
    hidden = (
        torch.randn(num_rows, width, generator=generator)
        .div_(width**0.5)
        .addcmul_(weight[labels], torch.tensor(5 / width))
    )
    return hidden.requires_grad_(), weight.requires_grad_(), labels


def measured(name: str, threads: int) -> dict[str, float]:
    """Seconds, peak memory and value of one forward and backward pass, in this process."""
    torch.set_num_threads(threads)
    loss = ENTRIES[name]
    hidden, weight, labels = layer("small")
    torch.autograd.grad(loss(hidden, weight, labels), (hidden, weight))
    hidden, weight, labels = layer(MEASURED)
    forget_peak()
    before, start, begun = resident("VmRSS"), time.perf_counter(), time.process_time()
    value = loss(hidden, weight, labels)
    value.backward()
    seconds, worked = time.perf_counter() - start, time.process_time() - begun
    peak = (resident("VmHWM") - before) / 1024
    gradients = sum(each.numel() * each.element_size() for each in (hidden, weight)) / 2**20
    return {
        "seconds": seconds,
        "cpu_seconds": worked,
        "peak_megabytes": peak,
        "above_gradients_megabytes": peak - gradients,
        "value": value.item(),
    }


def in_fresh_process(name: str, threads: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", name, "--threads", str(threads)]
    found: dict[str, float] = json.loads(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(arguments.one, arguments.threads)))
        return
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in ENTRIES}
    names = list(ENTRIES)
    for repeat in range(arguments.repeats):
        for name in names[repeat:] + names[:repeat]:
            rounds[name].append(in_fresh_process(name, arguments.threads))
            print(name, rounds[name][-1], flush=True)
    medians = {
        name: {key: statistics.median(each[key] for each in found) for key in found[0]}
        for name, found in rounds.items()
    }
    plain = medians[PLAIN]
    entries = {
        name: {
            **{key: round(value, 6 if key == "value" else 2) for key, value in found.items()},
            "times_plain": round(found["seconds"] / plain["seconds"], 3),
            "peak_times_plain": round(
                found["above_gradients_megabytes"] / plain["above_gradients_megabytes"], 3
            ),
        }
        for name, found in medians.items()
    }
    num_rows, width, num_classes = SIZES[MEASURED]
    content = {
        "environment": environment("calibrant", "torch"),
        "rows": num_rows,
        "width": width,
        "classes": num_classes,
        "threads": arguments.threads,
        "repeats": arguments.repeats,
        "measures": OURS,
        "relative_to": PLAIN,
        "bar": BAR,
        "entries": entries,
    }
    print("written:", write("linear_loss", content))


if __name__ == "__main__":
    main()
