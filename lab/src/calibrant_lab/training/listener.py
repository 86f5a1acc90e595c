"""Following a training while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
