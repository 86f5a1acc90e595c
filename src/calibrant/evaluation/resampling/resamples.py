"""Bootstrap resamples and deletions as counts, and the calibration errors of all of them at once.

A resample of N rows is a vector of N counts, or of one for each cluster or batch of rows. So means are one
product of the counts with the averaged values. Bins follow each other in the order of the confidences. So one
compiled pass over the counts gives the errors over bins of equal width and of equal mass, and another the
smooth calibration error. The bins of every class are sparse except for the lowest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, unique
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.binning import REACHED, mass_order
from calibrant._math.drawing import num_units
from calibrant.evaluation.resampling.event_cells import Kernel, ScoreCells
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector, cluster_totals, width_bins


@unique
class Stream(IntEnum):
    """Uses of random numbers; each has its own stream, so that none shifts another's."""

    SPLIT = 0
    BOOTSTRAP = 1
    NULL = 2
    FOLDS = 3
    JACKKNIFE = 4
    SAMPLE = 5
    GROUPS = 6
    SWAPS = 7


def stream_seed(seed: int, stream: Stream, part: int = 0) -> tuple[int, int, int]:
    return (seed, int(stream), part)


def generator(seed: int, stream: Stream, part: int = 0) -> np.random.Generator:
    return np.random.default_rng(stream_seed(seed, stream, part))


Counts: TypeAlias = NDArray[np.uint8]  # (r, N): how often resample r drew row i

SMALL_BLOCK = 1 << 19  # elements of counts whose float64 forms stay near the cache
MIDDLE_BLOCK = 1 << 21  # elements of counts that one thread takes at once
LARGE_BLOCK = 1 << 26  # elements of counts held at once: 64 MiB


MOST_UNITS = 1 << 14  # rows that are drawn singly; 1000 resamples of so many units are held at once


@dataclass(frozen=True)
class Resamples:
    """Rows, or whole ``clusters``, to draw; every walk over ``blocks`` is the same, so arms are paired.

    More than ``MOST_UNITS`` independent rows are split at random into that number of batches, which are drawn
    instead. The expected variance of a mean stays the same. The random split moves its standard error by
    about 0.6%, and 1000 resamples by 2.2%.
    """

    num_samples: int
    num_resamples: int
    seed: tuple[int, ...]
    clusters: NDArray[np.int64] | None = field(default=None, compare=False)

    @cached_property
    def units(self) -> Indices | None:
        """Unit of each row: its cluster or batch; ``None`` if each row is one."""
        if self.clusters is not None or self.num_samples <= MOST_UNITS:
            return self.clusters
        return np.random.default_rng((*self.seed, 1)).permutation(self.num_samples) % MOST_UNITS

    def by_row(self, counts: Counts) -> Counts:
        """Counts ``(r, N)`` or ``(N,)`` of rows from those of units."""
        return counts if self.units is None else counts.take(self.units, axis=-1)

    def blocks(self, size: int = LARGE_BLOCK) -> Iterator[Counts]:
        """The resamples in blocks ``(r, U)`` of at most ``size`` elements, or of one resample."""
        if num_units(self.num_samples, self.units) * self.num_resamples <= size:
            yield self._all
        else:
            yield from self._drawn(size)

    @cached_property
    def _all(self) -> Counts:
        return next(self._drawn(num_units(self.num_samples, self.units) * self.num_resamples))

    def _drawn(self, size: int) -> Iterator[Counts]:
        from calibrant.evaluation.resampling.kernels import count_drawn  # compiled

        rng = np.random.default_rng(self.seed)
        units = num_units(self.num_samples, self.units)
        for start, stop in block_bounds(self.num_resamples, size // units):
            # A count above 255 is impossible up to N = 255, and beyond has a probability below 1e-500.
            counts = np.zeros((stop - start, units), dtype=np.uint8)
            for row in counts:
                missing = units
                while missing:
                    missing -= count_drawn(rng.integers(0, 1 << 32, size=missing, dtype=np.uint32), row)
            yield counts


MOST_DELETIONS = 200


class Deletions(Resamples):
    """The sample without each row or cluster; without each of 200 random groups if there are more.

    Groups are as good here: the variance and skewness of deletions add up over groups. The counts are zero
    for the rows or clusters left out, else one.
    """

    def __init__(self, num_samples: int, seed: tuple[int, ...], clusters: Indices | None = None) -> None:
        number = min(num_units(num_samples, clusters), MOST_DELETIONS)
        super().__init__(num_samples, number, seed, clusters)

    @cached_property
    def units(self) -> Indices | None:
        return self.clusters

    def blocks(self, size: int = LARGE_BLOCK) -> Iterator[Counts]:
        units = num_units(self.num_samples, self.clusters)
        groups = np.random.default_rng(self.seed).permutation(units) % self.num_resamples
        for start, stop in block_bounds(self.num_resamples, size // units):
            yield (groups != np.arange(start, stop)[:, None]).astype(np.uint8)


def block_bounds(total: int, size: int) -> Iterator[tuple[int, int]]:
    """``(start, stop)`` of consecutive blocks of ``size``, at least one, that cover ``range(total)``."""
    size = max(1, size)
    return ((start, min(start + size, total)) for start in range(0, total, size))


def divide(numerator: Matrix, denominator: Matrix) -> Matrix:
    """The quotient, NaN if the denominator is not positive."""
    out = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), np.nan)
    return np.divide(numerator, denominator, out=out, where=denominator > 0)


class EventErrors:
    """Calibration errors over bins of equal width and of equal mass, and the smooth one, in resamples."""

    KERNELS: tuple[Kernel, ...] = ("width l1", "mass l1", "width l2", "width max", "smooth")

    def __init__(self, events: Events, num_bins: int) -> None:
        weights = None if events.weights is None else torch.from_numpy(events.weights)
        order = mass_order(torch.from_numpy(events.places), weights).numpy()
        ranked, places = events.confidences[order], events.places[order]
        self._weights = events.weights
        self._num_bins = num_bins
        self._order = order.astype(np.int32)
        starts = np.append(0, np.flatnonzero(np.diff(places)) + 1)
        lengths = np.diff(starts, append=len(ranked))
        self._ties = np.repeat(np.stack([starts, starts + lengths], 1), lengths, axis=0)
        self._edges = np.searchsorted(width_bins(ranked, num_bins), np.arange(num_bins + 1))
        self._mass = events.mass[order]
        self._residuals = self._mass * (events.outcomes[order] - ranked)
        self._cells = ScoreCells.of(events.confidences, events.weights)
        self._unranked = events.outcomes - events.confidences
        if events.weights is not None:
            self._unranked = events.weights * self._unranked

    def __call__(self, counts: Counts) -> dict[Kernel, Vector]:
        from calibrant._math.lipschitz import lipschitz_values  # compiled, as are those:
        from calibrant.evaluation.resampling import kernels

        points, steps = self._cells.points, np.arange(1, self._num_bins)
        if self._weights is None:  # bins of equal mass hold ceil(j N / B) samples
            total = counts.sum(axis=1, dtype=np.uint32).astype(np.float64)  # thrice as fast as in float64
            targets = np.ceil(steps * total[:, None] / self._num_bins)
        else:
            total = np.array([row @ self._weights for row in counts])
            targets = steps / self._num_bins * total[:, None] * REACHED
        targets = np.where(total[:, None] > 0, targets, np.inf)  # without weight nothing is reached
        errors, gathered = np.zeros((len(counts), 4)), np.zeros((len(counts), len(points)))
        ranked = self._order, self._ties, self._edges, self._mass, self._residuals
        sums = np.zeros((-(-counts.shape[1] // kernels.BLOCK) + 1, 2))
        kernels.add_errors(counts, targets, *ranked, sums, errors)
        kernels.add_to_cells(counts, self._cells.index, self._unranked, gathered)
        return {
            "width l1": divide(errors[:, kernels.ECE], total),
            "mass l1": divide(errors[:, kernels.ADAPTIVE], total),
            "width l2": np.sqrt(divide(errors[:, kernels.SQUARED], total)),
            "width max": errors[:, kernels.MAXIMUM],
            "smooth": divide(lipschitz_values(points, gathered), total),
        }


class ClasswiseErrors:
    """Mean over the classes of the one-vs-rest calibration error, in every resample.

    Few probabilities are above 1 / num_bins, as a row sums to one, and their bins are summed sparsely. The
    lowest bin of a class is the rest of the sum over all samples, one dense product for all classes.

    Args:
        rows: Sample of each probability above the lowest bin.
        cells: Its class * num_bins + bin.
        residuals: Its outcome minus the probability, weighted.
        mass: Weight of each sample ``(N,)``.
        sums: Turns counts ``(r, N)`` into residuals ``(r, C)`` summed over all rows.
    """

    def __init__(
        self,
        rows: Indices,
        cells: Indices,
        residuals: Vector,
        *,
        mass: Vector,
        num_classes: int,
        num_bins: int,
        sums: Callable[[Counts], Matrix],
    ) -> None:
        from scipy.sparse import csr_array

        filled, index = np.unique(cells, return_inverse=True)
        self._mass = mass
        self._num_classes = num_classes
        self._sums = sums
        self._cells: Any = csr_array((residuals, (index, rows)), shape=(len(filled), len(mass)))
        self._classes: Any = csr_array(
            (np.ones(len(filled)), (filled // num_bins, np.arange(len(filled)))),
            shape=(num_classes, len(filled)),
        )

    def __call__(self, counts: Counts) -> Vector:
        sums = self._sums(counts).T  # (C, r)
        errors = np.empty(len(counts))
        for start, stop in block_bounds(len(counts), SMALL_BLOCK // counts.shape[1]):
            columns = np.ascontiguousarray(counts[start:stop].T, dtype=np.float64)
            cells: Matrix = self._cells @ columns
            lowest = sums[:, start:stop] - self._classes @ cells
            gaps = np.abs(cells).sum(axis=0) + np.abs(lowest).sum(axis=0)
            errors[start:stop] = divide(gaps, self._num_classes * (self._mass @ columns))
        return errors


class Means:
    """Resampled ratios: ``ratios`` holds, by name, weighted numerators and denominators ``(N,)``."""

    def __init__(self, ratios: Mapping[str, tuple[Vector, Vector]], units: Indices | None) -> None:
        distinct: dict[bytes, int] = {}  # most ratios share their denominator
        rows: list[Vector] = []
        self._places: dict[str, list[int]] = {}
        for name, pair in ratios.items():
            self._places[name] = []
            for values in pair:
                place = distinct.setdefault(values.tobytes(), len(rows))
                if place == len(rows):
                    rows.append(values if units is None else cluster_totals(values, units))
                self._places[name].append(place)
        self._columns = np.stack(rows)

    def __call__(self, counts: Counts) -> dict[str, Vector]:
        """Ratios ``(r,)`` for counts ``(r, U)`` of units; NaN if a denominator is zero."""
        from calibrant.evaluation.resampling.kernels import add_products  # compiled

        sums = np.zeros((len(counts), len(self._columns)))
        add_products(counts, self._columns, sums)
        return {name: divide(sums[:, above], sums[:, below]) for name, (above, below) in self._places.items()}
