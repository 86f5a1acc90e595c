"""Bootstrap resamples and deletions as counts: how often each row was drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, unique
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.drawing import num_units, resampled_counts


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
LARGE_BLOCK = 1 << 26  # elements of counts held at once: 64 MiB


@dataclass(frozen=True)
class Resamples:
    """Rows, or whole ``clusters``, to draw; every walk over ``blocks`` is the same, so arms are paired."""

    num_samples: int
    num_resamples: int
    seed: tuple[int, ...]
    clusters: NDArray[np.int64] | None = field(default=None, compare=False)

    def blocks(self, size: int = LARGE_BLOCK) -> Iterator[Counts]:
        """The resamples in blocks ``(r, N)`` of at most ``size`` elements, or of one resample."""
        if self.num_samples * self.num_resamples <= size:
            yield self._all
        else:
            yield from self._drawn(size)

    @cached_property
    def _all(self) -> Counts:
        return next(self._drawn(self.num_samples * self.num_resamples))

    def _drawn(self, size: int) -> Iterator[Counts]:
        rng = np.random.default_rng(self.seed)
        units = num_units(self.num_samples, self.clusters)
        for start, stop in block_bounds(self.num_resamples, size // self.num_samples):
            # A count above 255 is impossible up to N = 255, and beyond has a probability below 1e-500.
            counts = np.empty((stop - start, self.num_samples), dtype=np.uint8)
            for row in counts:
                row[:] = resampled_counts(rng, units, self.clusters)
            yield counts


MOST_DELETIONS = 200


@dataclass(frozen=True)
class Deletions:
    """The sample without each of its rows, or clusters; of more than 200, without each of 200 random groups.

    Groups are as good here: the variance and the skewness that deletions are asked for add up over groups.
    """

    num_samples: int
    seed: tuple[int, ...]
    clusters: NDArray[np.int64] | None = field(default=None, compare=False)

    @property
    def num_resamples(self) -> int:
        return min(num_units(self.num_samples, self.clusters), MOST_DELETIONS)

    def blocks(self, size: int = LARGE_BLOCK) -> Iterator[Counts]:
        """The counts in blocks ``(r, N)``: zero for the rows left out, else one."""
        units = num_units(self.num_samples, self.clusters)
        groups = np.random.default_rng(self.seed).permutation(units) % self.num_resamples
        groups = groups if self.clusters is None else groups[self.clusters]
        for start, stop in block_bounds(self.num_resamples, size // self.num_samples):
            yield (groups != np.arange(start, stop)[:, None]).astype(np.uint8)


def block_bounds(total: int, size: int) -> Iterator[tuple[int, int]]:
    """``(start, stop)`` of consecutive blocks of ``size``, at least one, that cover ``range(total)``."""
    size = max(1, size)
    return ((start, min(start + size, total)) for start in range(0, total, size))
