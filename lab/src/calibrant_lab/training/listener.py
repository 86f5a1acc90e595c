"""Following a training while it runs, also on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Listener:
    """Told how a training goes; this one does nothing. It must be picklable where processes are spawned.

    Only the first process calls it.
    """

    def start(self, *, epoch: int, epochs: int, facts: Mapping[str, str]) -> None:
        """The loop begins after ``epoch`` of ``epochs``; ``facts`` are worth printing."""

    def batch(self, *, epoch: int, fraction: float, loss: float) -> None:
        """This share of epoch ``epoch`` (from 1) is done, at this mean loss; not called for every batch."""

    def epoch(self, row: Mapping[str, Any]) -> None:
        """An epoch is done and saved; ``row`` is its line of ``metrics.jsonl``."""

    def stage(self, text: str, fraction: float) -> None:
        """The loop is over; the finished network is being evaluated."""

    def stop(self) -> None:
        """Nothing will follow, whether or not the training succeeded."""


class Display(Listener):
    """A bar on stderr with loss, accuracy, ECE and time left; without a terminal, a line per epoch.

    The bar is made when the training starts, in the process that shows it.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._epochs = 0

    def start(self, *, epoch: int, epochs: int, facts: Mapping[str, str]) -> None:
        """Say what is trained; begin the bar."""
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
        self._task = self._bar.add_task(
            "training", total=epochs, completed=epoch, epoch=epoch, epochs=epochs, loss="-", found=""
        )

    def batch(self, *, epoch: int, fraction: float, loss: float) -> None:
        """Move the bar."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=epoch - 1 + fraction, epoch=epoch, loss=f"{loss:.4f}")

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Show what the calibration split says."""
        if self._bar is None or self._task is None:
            return
        found = f"accuracy {_shown(row['calibration_accuracy'])}  ECE {_shown(row['calibration_ece'])}"
        loss = f"{row['train_loss']:.4f}"
        self._bar.update(self._task, completed=row["epoch"], epoch=row["epoch"], loss=loss, found=found)
        if not self._bar.console.is_terminal:
            self._bar.console.print(
                f"epoch {row['epoch']}/{self._epochs}  loss {loss}  {found}", markup=False, highlight=False
            )

    def stage(self, text: str, fraction: float) -> None:
        """Say how far the judgement is."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, found=f"{text} ({fraction:.0%})")

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
