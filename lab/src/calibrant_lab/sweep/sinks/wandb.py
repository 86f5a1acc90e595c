"""To Weights & Biases, offline: ``wandb sync`` uploads what lies in the folder."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.sinks.content import PROJECT, curves, finals, label, refuse


def to_wandb(target: str, results: Iterable[RunResult]) -> int:
    """Write offline runs below a folder; nothing goes over the network."""
    try:
        tracker: Any = import_module("wandb")
    except ImportError as error:
        refuse("wandb", error)
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for result in results:
        if any(folder.glob(f"wandb/offline-run-*-{result.run}")):
            continue
        run = tracker.init(
            project=PROJECT,
            id=result.run,
            name=label(result),
            dir=str(folder),
            mode="offline",
            config=dict(result.settings),
            tags=[result.status],
            settings=tracker.Settings(silent=True, disable_git=True, x_disable_stats=True),
        )
        for step, values in curves(result):
            run.log(values, step=step)
        run.summary.update({**finals(result), "status": result.status, "reason": result.reason})
        run.finish(exit_code=0 if result.status == "finished" else 1)
        written += 1
    return written
