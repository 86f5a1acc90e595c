"""Time and memory of an evaluation of segmentation outputs, images made on the fly.

Run as ``python benchmarks/dense.py`` (1000 images of 512 × 512 × 19: 9.3 GB in float16, twenty minutes beside
other work; or ``--images 40``; ``--method none`` leaves out the calibrator). Writes ``results/dense.json``:
peak memory of the process with all that it imports (Linux), seconds, and when each stage began. Half of the
images are judged; making them is a part of the time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np
from environment import RESULTS, environment, write
from memory import resident
from numpy.typing import NDArray

from calibrant import evaluate
from calibrant.predictions import DensePredictions

IGNORED = 255
BLOCK = 32  # pixels that hang together


class Scene:
    """Logits or labels of images that are made when they are asked for, the same each time."""

    def __init__(self, count: int, size: int, num_classes: int, *, labels: bool) -> None:
        self._count, self._size, self._classes, self._labels = count, size, num_classes, labels

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> NDArray[Any]:
        rng = np.random.default_rng(place)
        coarse = rng.normal(size=(self._classes, self._size // BLOCK, self._size // BLOCK)).astype(np.float32)
        coarse = 3 * np.kron(coarse, np.ones((BLOCK, BLOCK), np.float32))
        shift = rng.normal()  # some images are harder
        if not self._labels:
            fine = rng.random(coarse.shape, dtype=np.float32)
            return (2 * (coarse + fine)).astype(np.float16)
        noise = -np.log(-np.log(rng.random(coarse.shape, dtype=np.float32) + 1e-30) + 1e-30)
        labels = (coarse + np.exp(0.3 * shift) * noise).argmax(axis=0)
        labels[:8] = IGNORED
        return labels.astype(np.uint8)


def main() -> None:
    """Measure once, and write."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--images", type=int, default=1000)
    options.add_argument("--size", type=int, default=512)
    options.add_argument("--classes", type=int, default=19)
    options.add_argument("--method", default="temperature")
    given = options.parse_args()
    scenes = [Scene(given.images, given.size, given.classes, labels=each) for each in (False, True)]
    dense = DensePredictions(logits=scenes[0], labels=scenes[1], ignore_index=IGNORED)
    methods = [] if given.method == "none" else [given.method]
    stages: dict[str, float] = {}
    start = time.perf_counter()

    def told(stage: str, share: float) -> None:
        stages.setdefault(stage, time.perf_counter() - start)
        print(f"\r{share:4.0%} {stage:40}", end="", file=sys.stderr, flush=True)

    found = evaluate(dense, calibrators=methods, progress=told)
    seconds = time.perf_counter() - start
    print(file=sys.stderr)
    result = {
        "images": given.images,
        "size": given.size,
        "num_classes": given.classes,
        "arms": len(found.arms),
        "positions_judged": found.num_test,
        "seconds": seconds,
        "stages_begin": stages,
        "peak_megabytes": resident("VmHWM") / 1024,
        "ece": found.arms[0].metrics["ece"].value,
    }
    print(result)
    known = json.loads((RESULTS / "dense.json").read_text()) if (RESULTS / "dense.json").exists() else {}
    name = f"{given.images} x {given.size} x {given.size} x {given.classes}"
    evaluations = known.get("evaluations", {}) | {name: result}
    write("dense", {"environment": environment("calibrant", "torch", "numpy"), "evaluations": evaluations})


if __name__ == "__main__":
    main()
