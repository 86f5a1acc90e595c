"""Who wants to know how a training goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Listener:
    """Told how a training goes; this one does nothing. Where processes are spawned it must be picklable.

    Only the first process tells.
    """

    def start(self, *, epoch: int, epochs: int, facts: Mapping[str, str]) -> None:
        """The loop begins after ``epoch`` of ``epochs``; ``facts`` are worth printing."""

    def batch(self, *, epoch: int, fraction: float, loss: float) -> None:
        """In the epoch numbered ``epoch`` (from 1) this share is done, at this mean loss; not every batch."""

    def epoch(self, row: Mapping[str, Any]) -> None:
        """An epoch is done and saved; ``row`` is its line of ``metrics.jsonl``."""

    def stage(self, text: str, fraction: float) -> None:
        """The loop is over; the finished network is being judged."""

    def stop(self) -> None:
        """Nothing will follow, whether or not all went well."""
