"""The metrics of one arm in every bootstrap resample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant._math.threads import in_threads, threads_for
from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.resampling.events import Vector
from calibrant.evaluation.resampling.resamples import SMALL_BLOCK, Counts, Deletions, Resamples, block_bounds
from calibrant.evaluation.resampling.statistics import EventErrors, Means


def replicate(
    reduced: Reduced,
    num_bins: int,
    resamples: Resamples | Deletions,
    progress: Callable[[float], None] = lambda _: None,
) -> dict[str, Vector]:
    """Every metric that has a value ``(R,)``, NaN where a resample leaves it undefined.

    The same ``resamples`` draw the same rows whatever the arm. Metrics with influences (AUROC, slope,
    intercept) are not among them: their intervals come from those.
    """
    engine = _Engine(reduced, num_bins)
    blocks: list[dict[str, Vector]] = []
    classwise: list[Vector] = []
    done = 0
    for counts in resamples.blocks():
        if reduced.classwise is not None:
            classwise.append(reduced.classwise(counts))
        bounds = block_bounds(len(counts), SMALL_BLOCK // resamples.num_samples)
        parts = [counts[start:stop] for start, stop in bounds]
        with threads_for(SMALL_BLOCK):  # one for each part
            for part, block in zip(parts, in_threads(engine, parts), strict=True):
                blocks.append(block)
                done += len(part)
                progress(done / resamples.num_resamples)
    replicates = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    if classwise:
        replicates["classwise_ece"] = np.concatenate(classwise)
    elif (
        "classwise_ece" in reduced.values and "classwise_ece" not in reduced.no_interval
    ):  # the mean over events that are judged anyway
        replicates["classwise_ece"] = replicates["event_ece" if "event_" in reduced.events else "ece"]
    for name in reduced.no_interval:
        replicates[name] = np.full(resamples.num_resamples, np.nan)
    return replicates


class _Engine:
    """What is prepared once for all resamples."""

    def __init__(self, reduced: Reduced, num_bins: int) -> None:
        self._means = Means({name: pair for name, pair in reduced.ratios.items() if name in reduced.values})
        self._events = {
            prefix: [EventErrors(event, num_bins) for event in events]
            for prefix, events in reduced.events.items()
        }
        self._values = reduced.values

    def __call__(self, counts: Counts) -> dict[str, Vector]:
        """The metrics of some resamples, from their counts ``(r, N)``."""
        found = self._means(counts)
        for prefix, events in self._events.items():
            each = [errors_of(counts) for errors_of in events]
            for name in each[0]:
                if prefix + name in self._values:
                    found[prefix + name] = np.mean([errors[name] for errors in each], axis=0)
        return found
