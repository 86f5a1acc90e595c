"""Ctrl-C while modules are imported, which some of them swallow, misread or die of."""

from __future__ import annotations

import _thread
import signal
import threading
from types import FrameType

_PAUSE = 0.05  # seconds


def hold_while_importing() -> None:
    """From now on, let Ctrl-C wait for the end of an import that it meets.

    What runs already under another handler, as in a program that calls this one, keeps it.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt_later)


def _interrupt_later(number: int, frame: FrameType | None) -> None:
    if not _is_importing(frame):
        signal.default_int_handler(number, frame)
    again = threading.Timer(_PAUSE, _thread.interrupt_main)
    again.daemon = True
    again.start()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
