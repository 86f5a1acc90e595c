"""Following a training while it runs, also on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Listener:
    """Observer of a training; this one does nothing. It must be picklable for spawned processes.

    Only the first process calls it.
    """

    def start(self, *, epoch: int, epochs: int, facts: Mapping[str, str]) -> None:
        """Start after ``epoch`` of ``epochs``; ``facts`` are for display."""

    def batch(self, *, epoch: int, fraction: float, loss: float) -> None:
        """Report the share and mean loss of epoch ``epoch`` (from 1), not after every batch."""

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Report a saved epoch; ``row`` is its line of ``metrics.jsonl``."""

    def stage(self, text: str, fraction: float) -> None:
        """Report a stage of the final evaluation."""

    def stop(self) -> None:
        """End, after success or failure."""


class Display(Listener):
    """Progress on stderr with loss, accuracy, ECE and time left; without a terminal, a line per epoch.

    The bar is created at the start of the training, in the process that shows it.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bar: Progress | None = None
        self._epochs = 0

    def start(self, *, epoch: int, epochs: int, facts: Mapping[str, str]) -> None:
        if self.quiet:
            return
        console = Console(stderr=True, soft_wrap=True)
        width = max(map(len, facts), default=0)
        for name, text in facts.items():
            console.print(f"{name:<{width}}  {text}", markup=False, highlight=False)
        if epoch:
            console.print(f"resuming after epoch {epoch} of {epochs}", markup=False, highlight=False)
        self._epochs = epochs
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(bar_width=16),
            TextColumn("loss {task.fields[loss]}  {task.fields[found]}"),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar.start()
        self._bar.add_task(
            "training", total=epochs, completed=epoch, epoch=epoch, epochs=epochs, loss="-", found=""
        )

    def batch(self, *, epoch: int, fraction: float, loss: float) -> None:
        self._update(completed=epoch - 1 + fraction, epoch=epoch, loss=f"{loss:.4f}")

    def epoch(self, row: Mapping[str, Any]) -> None:
        values = (row["calibration_accuracy"], row["calibration_ece"])
        accuracy, ece = ("-" if value is None else f"{value:.4f}" for value in values)
        loss, found = f"{row['train_loss']:.4f}", f"accuracy {accuracy}  ECE {ece}"
        self._update(completed=row["epoch"], epoch=row["epoch"], loss=loss, found=found)
        if self._bar is not None and not self._bar.console.is_terminal:
            text = f"epoch {row['epoch']}/{self._epochs}  loss {loss}  {found}"
            self._bar.console.print(text, markup=False, highlight=False)

    def stage(self, text: str, fraction: float) -> None:
        self._update(found=f"{text} ({fraction:.0%})")

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = None

    def _update(self, **fields: Any) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], **fields)
