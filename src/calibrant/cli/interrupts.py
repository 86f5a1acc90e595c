"""Ctrl-C while modules are imported, which some of them swallow, misread or die of."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from types import FrameType

STOPPED = "calibrant: stopped; nothing half-written is left behind."
_PAUSE = 0.05  # seconds
_IMPORTING = "<frozen importlib._bootstrap>"


def hold_while_importing() -> None:
    """From now on, let the first Ctrl-C that meets an import wait for its end; a second one ends it there.

    A program that calls the command under a handler of its own keeps that.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _Hold())


def heed() -> None:
    """Stop at once where a Ctrl-C still waits, however little there is left to do."""
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, _Hold) and handler.is_taken():
        raise KeyboardInterrupt


class _Hold:
    def __init__(self) -> None:
        self._held: list[object] = []  # the Ctrl-C that waits, if any; who removes it stops the command

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.is_taken() or not _is_importing(frame):
            signal.default_int_handler(number, frame)
        held = object()
        self._held.append(held)
        _thread.start_new_thread(self._wait, (held,))  # `threading` would take a lock that an import may hold

    def is_taken(self) -> bool:
        """Whether a Ctrl-C waited; forgets it."""
        try:
            self._held.pop()
        except IndexError:
            return False
        return True

    def _wait(self, held: object) -> None:
        """Interrupt again where the import has ended, by a signal, which also wakes what sleeps.

        Not where the command has stopped since: another one would meet it while it says goodbye.
        """
        main = threading.main_thread().ident or 0
        frames = sys._current_frames  # pyright: ignore[reportPrivateUsage]
        while held in self._held and _is_importing(frames().get(main)):
            time.sleep(_PAUSE)
        try:
            self._held.remove(held)
        except ValueError:
            return
        if sys.platform == "win32":
            _thread.interrupt_main()
        else:
            signal.pthread_kill(main, signal.SIGINT)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None
