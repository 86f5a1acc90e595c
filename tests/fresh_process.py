"""A program run in a process of its own, and the most memory that it held."""

import os
import subprocess
import sys

# The peak of this program alone: `ru_maxrss` also remembers the process that started it.
PEAK = """
def peak():
    from pathlib import Path
    (line,) = [line for line in Path("/proc/self/status").open() if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024
"""

GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""glibc gives back what is freed; left alone it keeps up to 200 MB of it, as threads happen to meet."""


def printed(program: str, *arguments: object) -> list[str]:
    """What `program` prints, word by word; its `peak()` is the most megabytes held so far (Linux)."""
    command = [sys.executable, "-c", PEAK + program, *map(str, arguments)]
    alone = os.environ | {"OMP_NUM_THREADS": "1", **GIVES_BACK}  # threads of neighbours wait for each other
    return subprocess.run(command, env=alone, capture_output=True, text=True, check=True).stdout.split()
