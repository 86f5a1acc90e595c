"""How long ``import calibrant`` takes on top of ``import torch``: medians of fresh processes, interleaved.

Run: ``python benchmarks/import_time.py``. The bar is 0.3 s.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from environment import environment, write

STATEMENTS = {
    "import torch": "import torch",
    "import torch, calibrant": "import torch, calibrant",
    "import torch, calibrant; calibrant.metrics": "import torch, calibrant; calibrant.metrics",
    "import torch, calibrant; calibrant.evaluate": "import torch, calibrant; calibrant.evaluate",
}
TIMER = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
REPEATS = 15


def main() -> None:
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(REPEATS):
        for name, statement in STATEMENTS.items():
            code = TIMER.format(statement)
            printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            seconds[name].append(float(printed.stdout))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    added = {name: median - medians["import torch"] for name, median in medians.items()}
    for name in STATEMENTS:
        print(f"{name:45s} {medians[name]:.3f} s   on top of torch {added[name]:+.3f} s")
    content = {
        "environment": environment("torch", "numpy", "calibrant"),
        "repeats": REPEATS,
        "median_seconds": medians,
        "seconds_on_top_of_torch": added,
        "bar_seconds_on_top_of_torch": {"import torch, calibrant": 0.3},
    }
    print("written:", write("import_time", content))


if __name__ == "__main__":
    main()
