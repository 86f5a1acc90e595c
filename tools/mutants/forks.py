"""Run a task in a fork of this process, with a time limit."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from sample import WORK

PYTEST = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow"]
PYTEST += ["--assert=plain"]  # pytest itself would load a file that it rewrites, and unmutated
_MEMORY = 6 << 30


def in_fork(task: Callable[[], Any], limit: float) -> Any:
    """Return the result of ``task``, or None if it exceeds ``limit`` seconds or dies."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        log = os.open(WORK / f"log-{os.getpid() % 8}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit)))
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        try:
            os.write(write, json.dumps(task()).encode())
        except BaseException:  # to the log
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    os.close(write)
    late = time.monotonic() + 20 * limit
    with os.fdopen(read, "rb") as pipe:
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > late:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.05)
        text = pipe.read()
    return json.loads(text) if text else None
