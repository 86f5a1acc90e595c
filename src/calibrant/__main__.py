"""The command ``calibrant``, also as ``python -m calibrant``."""

from __future__ import annotations

import sys

from calibrant.cli.interrupts import STOPPED, heed, hold_while_importing


def start() -> None:
    """Import the command and run it; Ctrl-C is reported from the first moment on."""
    hold_while_importing()
    try:
        from calibrant.cli.main import run

        heed()
        run()
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPED}\n")
        sys.exit(130)
    except MemoryError:
        sys.stderr.write("calibrant: there is too little memory to start; free some or raise its limit.\n")
        sys.exit(2)


if __name__ == "__main__":
    start()
