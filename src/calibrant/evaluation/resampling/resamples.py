"""Bootstrap resamples and deletions as counts: how often each row was drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Counts: TypeAlias = NDArray[np.uint8]  # (r, N): how often resample r drew row i

SMALL_BLOCK = 1 << 19  # elements of counts whose float64 forms stay near the cache
LARGE_BLOCK = 1 << 26  # elements of counts held at once: 64 MiB


@dataclass(frozen=True)
class Resamples:
    """Which rows the resamples draw; every walk over ``blocks`` gives the same, so arms are paired."""

    num_samples: int
    num_resamples: int
    seed: tuple[int, ...]

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
        for start, stop in block_bounds(self.num_resamples, size // self.num_samples):
            # A count above 255 is impossible up to N = 255, and beyond has a probability below 1e-500.
            counts = np.empty((stop - start, self.num_samples), dtype=np.uint8)
            for row in counts:
                drawn = rng.integers(0, self.num_samples, size=self.num_samples)
                row[:] = np.bincount(drawn, minlength=self.num_samples)
            yield counts


MOST_DELETIONS = 200


@dataclass(frozen=True)
class Deletions:
    """The sample without each of its rows; of more than 200 rows, without each of 200 random groups.

    Groups are as good here: the variance and the skewness that deletions are asked for add up over groups.
    """

    num_samples: int
    seed: tuple[int, ...]

    @property
    def num_resamples(self) -> int:
        """How many there are."""
        return min(self.num_samples, MOST_DELETIONS)

    def blocks(self, size: int = LARGE_BLOCK) -> Iterator[Counts]:
        """The counts in blocks ``(r, N)``: zero for the rows left out, else one."""
        groups = np.random.default_rng(self.seed).permutation(self.num_samples) % self.num_resamples
        for start, stop in block_bounds(self.num_resamples, size // self.num_samples):
            yield (groups != np.arange(start, stop)[:, None]).astype(np.uint8)


def block_bounds(total: int, size: int) -> Iterator[tuple[int, int]]:
    """``(start, stop)`` of consecutive blocks of ``size``, at least one, that cover ``range(total)``."""
    size = max(1, size)
    return ((start, min(start + size, total)) for start in range(0, total, size))
