"""Ctrl-C while modules are imported, which some of them swallow, misread or die of."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from types import FrameType

_PAUSE = 0.05  # seconds
_IMPORTING = "<frozen importlib._bootstrap>"


def hold_while_importing() -> None:
    """From now on, let the first Ctrl-C that meets an import wait for its end; a second one ends it there.

    A program that calls the command under a handler of its own keeps that.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _Hold())


class _Hold:
    """The handler."""

    def __init__(self) -> None:
        self._holds = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._holds or not _is_importing(frame):
            signal.default_int_handler(number, frame)
        self._holds = True
        _thread.start_new_thread(self._wait, ())  # `threading` would take a lock that an import may hold

    def _wait(self) -> None:
        """Interrupt again where the import has ended, by a signal, which also wakes what sleeps."""
        main = threading.main_thread().ident or 0
        frames = sys._current_frames  # pyright: ignore[reportPrivateUsage]
        while _is_importing(frames().get(main)):
            time.sleep(_PAUSE)
        self._holds = False
        if sys.platform == "win32":
            _thread.interrupt_main()
        else:
            signal.pthread_kill(main, signal.SIGINT)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None
