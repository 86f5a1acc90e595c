"""Losses against cross-entropy: forward and backward, time, value and peak memory.

Run: ``python benchmarks/losses.py``, for the peers in an environment where they are installed beside
calibrant: ``pip install -c constraints.txt kornia monai -e .`` (none of them may bring torchvision in: there
is no build of it beside the pinned torch). A peer that is not there is left out and named in the result.

All entries of a table run in turn in one process, at one thread and at two, in an order that changes from
round to round; medians and their ratios to ``torch.nn.functional.cross_entropy`` are kept, of the clock and
of the processor's time (which other processes disturb less), and the value that each returned. Peak memory is
measured in a fresh process per entry, above the inputs and the imports (Linux), in multiples of the logits.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import torch
from environment import environment, write
from memory import forget_peak, resident
from torch import Tensor
from torch.nn import functional

from calibrant import losses

Loss = Callable[[Tensor, Tensor], Tensor]
PACKAGES = ("calibrant", "torch", "kornia", "monai")
GAMMA = 3.0
# samples, classes, calls per measurement
SIZES = {"4096 x 1000": (4096, 1000, 1), "128 x 10": (128, 10, 100)}
# At most so many times cross-entropy; memory in multiples of the logits.
BARS = {
    "4096 x 1000": {"times_cross_entropy": 0.8, "peak_memory": 2.0},
    "128 x 10": {"times_cross_entropy": 2.0},
}
BASE = "torch cross_entropy"
OURS = "calibrant focal_loss"


def data(size: str) -> tuple[Tensor, Tensor]:
    """Logits in float32 and labels, some of them sure and right."""
    num_samples, num_classes, _ = SIZES[size]
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(num_samples, num_classes, generator=generator)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    labels[::2] = logits.argmax(1)[::2]
    return logits.requires_grad_(), labels


def two_lines(logits: Tensor, labels: Tensor) -> Tensor:
    """What most people write; its gradient is NaN for gamma below 1 where the network is sure."""
    surprise = functional.cross_entropy(logits, labels, reduction="none")
    return ((1 - torch.exp(-surprise)) ** GAMMA * surprise).mean()


def one_hot(logits: Tensor, labels: Tensor) -> Tensor:
    """The recipe over a one-hot matrix."""
    hot = functional.one_hot(labels, logits.shape[1]).to(logits.dtype)
    probs = torch.softmax(logits, 1).clamp(1e-7, 1 - 1e-7)
    return (-hot * (1 - probs) ** GAMMA * probs.log()).sum(1).mean()


def focal_entries() -> dict[str, Loss]:
    """Cross-entropy, ours, and focal loss elsewhere, by public interfaces and brought to the mean."""
    found: dict[str, Loss] = {
        BASE: functional.cross_entropy,
        OURS: lambda z, t: losses.focal_loss(z, t, gamma=GAMMA),
        "two lines": two_lines,
        "one-hot recipe": one_hot,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs, on import
        try:
            from kornia.losses import focal_loss as kornia_focal

            found["kornia"] = lambda z, t: (
                kornia_focal(z, t, alpha=None, gamma=GAMMA, reduction="sum") / len(t)
            )
        except ImportError:
            pass
        try:
            from monai.losses import FocalLoss as MonaiFocal

            # Labels (N, 1); its mean is over samples and classes.
            monai = MonaiFocal(to_onehot_y=True, use_softmax=True, gamma=GAMMA)
            found["monai"] = lambda z, t: monai(z, t.unsqueeze(1)) * z.shape[1]
        except ImportError:
            pass
    return found


def our_entries() -> dict[str, Loss]:
    """Cross-entropy and every loss of ours under its defaults."""
    found: dict[str, Loss] = {BASE: functional.cross_entropy}
    for name in losses.available():
        module = losses.build(name)
        if name.startswith("multilabel"):
            # Half of the entries are ones, as labels of their own.
            found[name] = lambda z, t, module=module: module(z, _bits(z, t))
        else:
            found[name] = module
    return found


_BITS: dict[tuple[int, ...], Tensor] = {}


def _bits(logits: Tensor, labels: Tensor) -> Tensor:
    """Labels in {0, 1} of the logits' shape, made once."""
    shape = tuple(logits.shape)
    if shape not in _BITS:
        _BITS[shape] = (torch.arange(logits.numel()).reshape(shape) + labels.unsqueeze(1)) % 2
    return _BITS[shape]


def timed(entries: dict[str, Loss], size: str, threads: int, repeats: int) -> dict[str, dict[str, float]]:
    """Median microseconds of forward and backward, and the value, of every entry."""
    torch.set_num_threads(threads)
    logits, labels = data(size)
    calls = SIZES[size][2]
    values = {name: loss(logits, labels).item() for name, loss in entries.items()}
    seconds: dict[str, list[float]] = {name: [] for name in entries}
    worked: dict[str, list[float]] = {name: [] for name in entries}
    names = list(entries)
    for repeat in range(repeats + 2):
        turn = repeat % len(names)
        for name in names[turn:] + names[:turn]:
            loss = entries[name]
            start, begun = time.perf_counter(), time.process_time()
            for _ in range(calls):
                torch.autograd.grad(loss(logits, labels), logits)
            if repeat >= 2:  # the first rounds warm up
                seconds[name].append((time.perf_counter() - start) / calls)
                worked[name].append((time.process_time() - begun) / calls)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    works = {name: statistics.median(times) for name, times in worked.items()}
    return {
        name: {
            "microseconds": round(1e6 * medians[name], 2),
            "times_cross_entropy": round(medians[name] / medians[BASE], 3),
            "cpu_times_cross_entropy": round(works[name] / works[BASE], 3),
            "value": values[name],
        }
        for name in entries
    }


def peak_memory(table: str, size: str, name: str) -> float:
    """Peak of forward and backward above inputs and imports, in multiples of the logits."""
    command = [sys.executable, __file__, "--peak", table, size, name]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return round(float(printed.splitlines()[-1]), 2)


def print_peak(table: str, size: str, name: str) -> None:
    """Run once small for imports and compilers, forget that peak, run on the data and print the new one."""
    loss = TABLES[table]()[name]
    small = torch.randn(8, 10, requires_grad=True)
    torch.autograd.grad(loss(small, torch.arange(8)), small)
    logits, labels = data(size)
    if name.startswith("multilabel"):
        _bits(logits, labels)
    forget_peak()
    before = resident("VmRSS")
    torch.autograd.grad(loss(logits, labels), logits)
    print((resident("VmHWM") - before) * 1024 / (logits.numel() * logits.element_size()))


TABLES = {"focal": focal_entries, "all": our_entries}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=41)
    parser.add_argument("--peak", nargs=3, metavar=("TABLE", "SIZE", "NAME"))
    arguments = parser.parse_args()
    if arguments.peak:
        print_peak(*arguments.peak)
        return
    results = {}
    for table, entries in TABLES.items():
        found = entries()
        results[table] = {}
        for size in SIZES:
            # Fewer rounds are enough for the long table.
            repeats = arguments.repeats if table == "focal" else max(5, arguments.repeats // 4)
            by_threads = {str(threads): timed(found, size, threads, repeats) for threads in (1, 2)}
            row = {"bar": BARS[size] if table == "focal" else {}, "threads": by_threads}
            if size == "4096 x 1000":
                row["peak_memory"] = {name: peak_memory(table, size, name) for name in found}
            results[table][size] = row
            print(table, size, json.dumps(row, indent=1))
    timed_peers = results["focal"]["128 x 10"]["threads"]["1"]
    missing = [name for name in ("kornia", "monai") if name not in timed_peers]
    content = {
        "environment": environment(*PACKAGES),
        "gamma": GAMMA,
        "repeats": arguments.repeats,
        "measures": OURS,
        "relative_to": BASE,
        "peers_not_installed": missing,
        "tables": results,
    }
    print("written:", write("losses", content))


if __name__ == "__main__":
    main()
