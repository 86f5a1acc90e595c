"""Counts of independent events, drawn many times without drawing every event.

The number that occurs among n events of probabilities p_1, ..., p_n has the Poisson binomial distribution,
whose table takes n^2 / 2 steps; one uniform number then draws the whole group.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_TOGETHER = 256  # events of one table; more are several groups, whose numbers add up


def group_starts(first_of_group: NDArray[np.bool_]) -> NDArray[np.int64]:
    """First places of groups of at most 256 ``(G + 1,)``, the end included."""
    num_events = len(first_of_group)
    starts = np.append(np.flatnonzero(first_of_group), num_events)
    pieces = -(-np.diff(starts) // MOST_TOGETHER)  # of each group
    place = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)  # within its group
    return np.append(np.repeat(starts[:-1], pieces) + MOST_TOGETHER * place, num_events)


class DrawnCounts:
    """Draws how many events of each group occur.

    Args:
        probs: Probabilities of the events ``(N,)``, the groups one after the other.
        starts: Where the groups begin, and the end ``(G + 1,)``.
    """

    def __init__(self, probs: NDArray[np.float64], starts: NDArray[np.int64]) -> None:
        from calibrant.evaluation.resampling.kernels import count_tables  # compiled

        self._starts = starts
        self._tables = count_tables(probs, starts)

    def draw(self, rng: np.random.Generator, num_draws: int) -> NDArray[np.float64]:
        """Numbers ``(G, num_draws)``."""
        from calibrant.evaluation.resampling.kernels import drawn_counts  # compiled

        # Single precision halves the time of drawing; it resolves probabilities to 6e-8.
        uniform = rng.random((len(self._starts) - 1, num_draws), dtype=np.float32)
        return drawn_counts(uniform, self._tables, self._starts)
