"""What runs inside Ray: a run, and the place where it says how far it is."""

from __future__ import annotations

import _thread
import os
from contextlib import suppress
from typing import Any

from calibrant._math.worker_processes import pin_threads
from calibrant_lab.sweep.engines.engine import Ended, Order, Progress
from calibrant_lab.sweep.engines.perform import attempt, now_and_then

_TELL_EVERY = 0.5  # seconds


class News:
    """Keeps the latest news of each run until they are fetched; an actor."""

    def __init__(self) -> None:
        self._latest: dict[str, Progress] = {}

    def note(self, progress: Progress) -> None:
        """Keep it."""
        self._latest[progress.run] = progress

    def taken(self) -> list[Progress]:
        """What is new since the last time."""
        news, self._latest = list(self._latest.values()), {}
        return news


def work(order: Order, news: Any, threads: int, folder: str) -> Ended:
    """Do an order, in the folder in which the sweep was started, where this machine has it."""
    with suppress(OSError):
        os.chdir(folder)
    pin_threads(threads)
    tell = now_and_then(news.note.remote, _TELL_EVERY)
    return attempt(order, tell, lost=_thread.interrupt_main)
