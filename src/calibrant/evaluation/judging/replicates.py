"""The metrics of one arm in every bootstrap resample."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from calibrant._math.threads import in_threads, threads_for
from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.quantities import ECE
from calibrant.evaluation.quantity import EVENT, ClassErrors, EventError, Quantity
from calibrant.evaluation.resampling.events import Events, Vector
from calibrant.evaluation.resampling.resamples import SMALL_BLOCK, Counts, Deletions, Resamples, block_bounds
from calibrant.evaluation.resampling.statistics import EventErrors, Means


def replicate(
    reduced: Reduced,
    num_bins: int,
    resamples: Resamples | Deletions,
    progress: Callable[[float], None] = lambda _: None,
    *,
    only: Sequence[Quantity] | None = None,
) -> dict[str, Vector]:
    """Every metric that has a value ``(R,)``, NaN where a resample leaves it undefined; or ``only`` some.

    The same ``resamples`` draw the same rows whatever the arm. Metrics with influences (AUROC, slope,
    intercept) are not among them: their intervals come from those.
    """
    wanted = [each for each in (reduced.quantities if only is None else only) if each.key in reduced.values]
    engine = _Engine(reduced, num_bins, wanted)
    classwise = None
    if any(isinstance(each.computed, ClassErrors) for each in wanted):
        classwise = reduced.classwise
    blocks: list[dict[str, Vector]] = []
    of_classes: list[Vector] = []
    done = 0
    for counts in resamples.blocks():
        if classwise is not None:
            of_classes.append(classwise(counts))
        bounds = block_bounds(len(counts), SMALL_BLOCK // resamples.num_samples)
        parts = [counts[start:stop] for start, stop in bounds]
        with threads_for(SMALL_BLOCK):  # one for each part
            for part, block in zip(parts, in_threads(engine, parts), strict=True):
                blocks.append(block)
                done += len(part)
                progress(done / resamples.num_resamples)
    replicates = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    for each in wanted:
        if each.key in reduced.no_interval:
            replicates[each.key] = np.full(resamples.num_resamples, np.nan)
        elif isinstance(each.computed, ClassErrors):
            # Without classes of its own it is the mean over events that are judged anyway.
            same = ECE.event_key if EVENT in reduced.events else ECE.key
            replicates[each.key] = np.concatenate(of_classes) if of_classes else replicates[same]
    return replicates


class _Engine:
    def __init__(self, reduced: Reduced, num_bins: int, wanted: Sequence[Quantity]) -> None:
        ratios = {each.key: reduced.ratios[each.key] for each in wanted if each.key in reduced.ratios}
        self._means = Means(ratios) if ratios else None
        self._errors = [(each, each.computed) for each in wanted if isinstance(each.computed, EventError)]
        self._events = {
            prefix: [EventErrors(event, num_bins) for event in reduced.events[prefix]]
            for prefix in {each.prefix for each, _ in self._errors}
        }
        self._reduced = reduced
        self._num_bins = num_bins

    def __call__(self, counts: Counts) -> dict[str, Vector]:
        """The quantities of some resamples, from their counts ``(r, N)``."""
        found = {} if self._means is None else self._means(counts)
        kernels = {
            prefix: [
                errors_of(self._of_event(counts, event))
                for errors_of, event in zip(events, self._reduced.events[prefix], strict=True)
            ]
            for prefix, events in self._events.items()
        }
        for each, computed in self._errors:
            if computed.kernel in EventErrors.KERNELS:
                parts = [errors[computed.kernel] for errors in kernels[each.prefix]]
            else:
                events = self._reduced.events[each.prefix]
                parts = [self._recomputed(computed, event, self._of_event(counts, event)) for event in events]
            found[each.key] = np.mean(parts, axis=0)
        return found

    def _of_event(self, counts: Counts, event: Events) -> Counts:
        if not self._reduced.rows_are_clusters or event.clusters is None:
            return counts
        return np.ascontiguousarray(counts[:, event.clusters])

    def _recomputed(self, error: EventError, event: Events, counts: Counts) -> Vector:
        """An error that no kernel resamples; NaN where a resample has no weight."""
        values = np.full(len(counts), np.nan)
        for r, row in enumerate(counts):
            weights = row.astype(np.float64) if event.weights is None else row * event.weights
            drawn = weights > 0
            if drawn.any():
                sample = (event.confidences[drawn], event.outcomes[drawn], weights[drawn])
                values[r] = error.value(*sample, self._num_bins)
        return values
