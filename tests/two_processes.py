"""One of several processes that share a stream: ``two_processes.py RANK WORLD MEETING_POINT``.

Prints, as JSON, the value of every streaming class over the streams of all processes and how many collectives
that took.
"""

import json
import sys
import warnings
from typing import Any

import torch
from torch import distributed

from rosters_streaming import STREAMING

TASKS = ("multiclass", "binary", "multilabel")


def stream(task: str, rank: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The samples of one process: of different number, and none at all for the last of three."""
    generator = torch.Generator().manual_seed(rank)
    n = (40, 23, 0)[rank]
    shape = (n,) if task == "binary" else (n, 3)
    probs = torch.rand(shape, generator=generator, dtype=torch.float64)
    if task == "multiclass":
        probs = probs / probs.sum(dim=1, keepdim=True)
    labels = torch.randint(
        0, 3 if task == "multiclass" else 2, shape[: 1 + (task == "multilabel")], generator=generator
    )
    return probs, labels, torch.rand(n, generator=generator, dtype=torch.float64)


def main(rank: int, world: int, meeting_point: str) -> None:
    """See the own part of the streams, then ask for the values over all."""
    distributed.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=world)
    warnings.simplefilter("ignore")  # torchmetrics warns of the process that saw nothing
    calls: list[str] = []
    for name in ("all_gather", "all_reduce", "barrier"):
        count_calls(name, calls)
    found: dict[str, Any] = {}
    for task in TASKS:
        probs, labels, weights = stream(task, rank)
        for entry in STREAMING:
            metric = entry.build(task, 3)
            for half in (slice(None, len(probs) // 2), slice(len(probs) // 2, None)):
                if len(probs):
                    metric.update(probs[half], labels[half], weights=weights[half])
            calls.clear()
            value = metric.compute()
            cost = list(calls)
            bound = metric.error_bound().item() if hasattr(metric, "error_bound") else 0.0
            found[f"{task} {entry.name}"] = {"value": value.item(), "calls": cost, "bound": bound}
    sys.stdout.write(json.dumps(found))
    distributed.destroy_process_group()


def count_calls(name: str, calls: list[str]) -> None:
    """Note each call of a collective, wherever it is called from."""
    original = getattr(distributed, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return original(*args, **kwargs)

    setattr(distributed, name, counted)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
