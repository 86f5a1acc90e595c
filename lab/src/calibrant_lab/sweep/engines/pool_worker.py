"""The process of a pool's worker."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from calibrant._math.worker_processes import pin_threads
from calibrant_lab.sweep.engines.engine import Ended, Order, Progress
from calibrant_lab.sweep.engines.perform import attempt, now_and_then

_TELL_EVERY = 0.2  # seconds
_GRACE = 30.0


def work(pipe: Connection[Any, Any], threads: int) -> None:
    """Do the orders that come through the pipe until it is closed or this process is told to end."""
    if hasattr(os, "setsid"):
        with suppress(OSError):
            os.setsid()  # Ctrl-C in the terminal is for the driver, which tells the workers itself
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(_Leaving):
        signal.signal(signal.SIGTERM, _leave)
        threading.Thread(target=_follow_driver, daemon=True).start()
        pin_threads(threads)
        with suppress(EOFError, OSError):
            while True:
                order: Order = pipe.recv()
                ended = _performed(order, pipe)
                pipe.send(ended)
                if ended.state == "stopped":
                    return


class _Leaving(BaseException):
    """This process was told to end."""


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise _Leaving


def _performed(order: Order, pipe: Connection[Any, Any]) -> Ended:
    def tell(progress: Progress) -> None:
        with suppress(OSError):
            pipe.send(progress)

    return attempt(order, now_and_then(tell, _TELL_EVERY), lost=_stop_this_process)


def _stop_this_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _follow_driver() -> None:
    """End with the driver, however it ended; a training first saves what it has."""
    driver = mp.parent_process()
    if driver is None:
        return
    driver.join()
    _stop_this_process()
    time.sleep(_GRACE)
    os._exit(1)
