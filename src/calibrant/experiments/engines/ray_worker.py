"""What runs inside Ray: a run, and the place where it says how far it is."""

from __future__ import annotations

import _thread
import os
import time
import traceback
from contextlib import suppress
from typing import Any

from calibrant.experiments.engines.engine import Ended, Order, Progress
from calibrant.experiments.engines.perform import perform, pin_threads

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
    told = 0.0

    def tell(progress: Progress) -> None:
        nonlocal told
        if time.monotonic() - told > _TELL_EVERY:
            told = time.monotonic()
            news.note.remote(progress)

    try:
        return perform(order, tell, lost=_thread.interrupt_main)
    except Exception as error:
        said = traceback.format_exception_only(error)[-1].strip()
        return Ended(run=order.item.run, state="died", reason=said)
