"""Delay Ctrl-C during imports, some of which swallow it, misread it or crash."""

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
    """Let the first Ctrl-C during an import wait for its end, unless the program has its own handler."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _Hold())


def heed() -> None:
    """Stop at once if a Ctrl-C is waiting."""
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
        """Return True if a Ctrl-C waited, and forget it."""
        try:
            self._held.pop()
        except IndexError:
            return False
        return True

    def _wait(self, held: object) -> None:
        """Interrupt again by signals after the import, until one is heard or the command has stopped.

        A signal that comes just before a blocking call is not heard by it.
        """
        main = threading.main_thread().ident or 0
        frames = sys._current_frames  # pyright: ignore[reportPrivateUsage]
        while held in self._held:
            if not _is_importing(frames().get(main)):
                if sys.platform == "win32":
                    _thread.interrupt_main()
                else:
                    signal.pthread_kill(main, signal.SIGINT)
            time.sleep(_PAUSE)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None
