"""To TensorBoard: a folder of event files for each run."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.sinks.content import curves, ended, finals, label, refuse


def to_tensorboard(target: str, results: Iterable[RunResult]) -> int:
    """Write event files below a folder, which ``tensorboard --logdir`` shows."""
    try:
        writers: Any = import_module("torch.utils.tensorboard.writer")
    except ImportError as error:
        refuse("tensorboard", error)
    written = 0
    for result in results:
        folder = Path(target) / result.run
        if any(folder.glob("events.*")):
            continue
        with writers.SummaryWriter(str(folder)) as writer:
            time, step = ended(result), 0
            for step, values in curves(result):
                for name, value in values.items():
                    writer.add_scalar(name, value, step, walltime=time)
            for name, value in finals(result).items():
                writer.add_scalar(name, value, step, walltime=time)
            rows = "\n".join(f"| {key} | {value} |" for key, value in result.settings.items())
            about = f"{label(result)}: {result.status}" + (f", {result.reason}" if result.reason else "")
            writer.add_text("run", f"{about}\n\n| setting | value |\n|---|---|\n{rows}", step, walltime=time)
        written += 1
    return written
