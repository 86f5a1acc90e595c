"""1000 bootstrap resamples of every default metric of `evaluate`: seconds, processor seconds and memory.

Run as ``python benchmarks/bootstrap.py``. The first, small run compiles and is not counted; what is timed is
``replicate`` on predictions that were reduced to their residuals before (timed apart). Processor seconds are
kept beside the wall clock's: they count all threads and hardly depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from environment import environment, write

from calibrant import Predictions
from calibrant.evaluation.judging.measure import replicate
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.resampling.event_cells import BinnedEvents
from calibrant.evaluation.resampling.null import draw_null
from calibrant.evaluation.resampling.resamples import Resamples

SIZES = ((10_000, 100), (10_000, 1000), (100_000, 10))
BAR = {"num_samples": 10_000, "num_classes": 100, "threads": 2, "seconds": 5.0}
NUM_BINS = 15


def data(num_samples: int, num_classes: int) -> Predictions:
    """Over-confident logits and labels."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((num_samples, num_classes)) * 2
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return Predictions(logits=1.5 * logits, labels=labels)


def timed(run: Callable[[], object], repeats: int) -> dict[str, float]:
    """Medians of wall-clock and processor seconds."""
    walls: list[float] = []
    processors: list[float] = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        run()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return {"seconds": statistics.median(walls), "processor_seconds": statistics.median(processors)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--resamples", type=int, default=1000)
    arguments = parser.parse_args()
    small = reduce_predictions(data(100, 10), NUM_BINS)
    replicate(small, NUM_BINS, Resamples(100, 2, (0,)))
    draw_null(BinnedEvents(small.events[""][0], NUM_BINS), 2, (0,))
    results: list[dict[str, object]] = []
    for num_samples, num_classes in SIZES:
        predictions = data(num_samples, num_classes)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            reduced = reduce_predictions(predictions, NUM_BINS)
            resamples = Resamples(num_samples, arguments.resamples, (0,))
            event = reduced.events[""][0]
            row = {
                "num_samples": num_samples,
                "num_classes": num_classes,
                "num_resamples": arguments.resamples,
                "threads": threads,
                "metrics": sorted(replicate(small, NUM_BINS, Resamples(100, 2, (0,)))),
                "reduce": timed(lambda p=predictions: reduce_predictions(p, NUM_BINS), arguments.repeats),
                "bootstrap": timed(
                    lambda r=reduced, s=resamples: replicate(r, NUM_BINS, s), arguments.repeats
                ),
                "null": timed(
                    lambda e=event: draw_null(BinnedEvents(e, NUM_BINS), arguments.resamples, (0,)),
                    arguments.repeats,
                ),
                "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
            print(row)
            results.append(row)
    content = {
        "environment": environment("calibrant", "torch", "numpy", "scipy", "numba"),
        "bar": BAR,
        "rows": results,
    }
    print("written:", write("bootstrap", content))


if __name__ == "__main__":
    main()
