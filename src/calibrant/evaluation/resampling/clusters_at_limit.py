"""Draws for models at a limit with clustered samples: gaps of that size, with the clusters' noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.evaluation.resampling.clustered_noise import clustered_sums
from calibrant.evaluation.resampling.event_cells import Cells, EventCells, Kernel
from calibrant.evaluation.resampling.events import Events, Matrix, Vector
from calibrant.evaluation.resampling.null import draw_null, noise_of
from calibrant.evaluation.resampling.streams import Stream, stream_seed

STEPS = 40  # of the bisection
MOST_GAPS = 64.0  # times the gaps found: clipping can take from them


class ClusteredError:
    """An error over bins or cells, and the noise ``(R, M)`` of clusters in it."""

    def __init__(self, cells: Cells, noise: Matrix, seed: int) -> None:
        self._cells, self._noise = cells, noise
        rng = np.random.default_rng((seed, 5))
        self._extra = rng.standard_normal(noise.shape, dtype=np.float32)

    @classmethod
    def of_events(
        cls, kernel: Kernel, events: Sequence[Events], *, num_bins: int, num_draws: int, seed: int
    ) -> ClusteredError:
        """The error of events, averaged over them."""
        places = [EventCells(event, num_bins) for event in events]
        seeds = [stream_seed(seed, Stream.NULL, part) for part in range(len(events))]
        drawn = [
            draw_null(each, num_bins, num_draws, of, num_kept=num_draws)
            for each, of in zip(places, seeds, strict=True)
        ]
        return cls(*noise_of(places, drawn, kernel), seed)

    @property
    def num_draws(self) -> int:
        """Number of draws of the noise: for classes fewer than requested."""
        return len(self._noise)

    @property
    def observed(self) -> float:
        """The error found."""
        return self._cells.observed

    @property
    def found(self) -> Vector:
        """The gaps found in each bin ``(F,)``."""
        return self._cells.gaps

    @property
    def directions(self) -> tuple[Vector, Vector, Vector]:
        """The gaps where in each bin what is stated least always happens; where all never does, or always."""
        stated = self._cells.stated
        return np.where(stated <= 0.5, 1.0, 0.0) - stated, -stated, 1 - stated

    def of(self, gaps: Vector) -> float:
        """The error that gaps have without noise."""
        return float(self._cells.error(self._cells.sums(gaps)[None])[0])

    def draws(self, gaps: Vector, number: int) -> Vector:
        """The errors ``(number,)`` of samples of a model with these gaps."""
        noise = self._noise[:number]
        return self._cells.error(clustered_sums(self._cells, noise, gaps, self._extra[: len(noise)]))

    def gaps_at(self, direction: Vector, error: float) -> Vector:
        """Gaps in a direction that have this error, as far as there are any."""

        def shifted(t: float) -> Vector:
            return np.clip(t * direction, -self._cells.stated, 1 - self._cells.stated)

        low, high = 0.0, 1.0
        while self.of(shifted(high)) < error and high < MOST_GAPS:
            high *= 2
        for _ in range(STEPS if error > 0 else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if self.of(shifted(middle)) < error else (low, middle)
        return shifted(low)
