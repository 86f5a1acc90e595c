r"""Cumulative differences between what happened and what was said, in the order of what was said.

Their limit is a Brownian motion B on [0, 1]. The laws of :math:`\sup |B|` and of :math:`\max B - \min B` each
have two series: by reflection, which converges fast for large x, and its Poisson dual, fast for small x.
Where they meet five terms of either give full precision.

References:
    Feller, "The Asymptotic Distribution of the Range of Sums of Independent Random Variables", Annals of
    Mathematical Statistics 22, 1951.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]

_BLOCK = 1 << 20  # numbers drawn at a time
_MEET, _TERMS = 1.8, 12  # of series


@dataclass(frozen=True)
class CumulativeDifferences:
    """The sample merged at equal scores, so that the order of tied rows cannot matter."""

    scores: Vector  # (n,) distinct, ascending
    path: Vector  # (n,) sum of weighted outcome minus score so far, as a share of the whole weight
    spread: float  # standard deviation of the end of the path if the scores are true
    _kinds: tuple[Vector, Vector, NDArray[np.int64]]  # of equal score and weight: that weight, count, place

    @classmethod
    def of(cls, scores: Vector, outcomes: Vector, weights: Vector | None = None) -> CumulativeDifferences:
        shares = np.ones(len(scores)) if weights is None else weights
        shares = shares / shares.sum()
        points, place = np.unique(scores, return_inverse=True)
        jumps = np.bincount(place, shares * (outcomes - scores), len(points))
        levels, level = np.unique(shares, return_inverse=True)
        kinds, counts = np.unique(place * len(levels) + level, return_counts=True)
        variance = float(shares**2 @ (scores * (1 - scores)))
        return cls(
            points,
            np.cumsum(jumps, dtype=np.float64),
            float(np.sqrt(variance)),
            (levels[kinds % len(levels)], counts.astype(np.float64), kinds // len(levels)),
        )

    @property
    def excursion(self) -> float:
        """The largest distance of the path from zero."""
        return float(np.abs(self.path).max())

    @property
    def range(self) -> float:
        """The highest point of the path less the lowest; it starts at zero."""
        return max(0.0, float(self.path.max())) - min(0.0, float(self.path.min()))

    def draw(self, num_draws: int, seed: int) -> tuple[Vector, Vector]:
        """Excursions and ranges ``(num_draws,)`` where every outcome is drawn from its score."""
        rng = np.random.default_rng(seed)
        shares, counts, place = self._kinds
        probs = np.minimum(self.scores[place], 1.0)
        starts = np.flatnonzero(np.diff(place, prepend=-1))  # of each score
        excursions, ranges = np.empty(num_draws), np.empty(num_draws)
        step = max(1, _BLOCK // len(counts))
        for start in range(0, num_draws, step):
            rows = slice(start, min(start + step, num_draws))
            size = (rows.stop - rows.start, len(counts))
            jumps = shares * (rng.binomial(counts.astype(np.int64), probs, size=size) - counts * probs)
            paths = np.cumsum(np.add.reduceat(jumps, starts, axis=1), axis=1)
            high, low = np.maximum(paths.max(axis=1), 0), np.minimum(paths.min(axis=1), 0)
            excursions[rows] = np.maximum(high, -low)
            ranges[rows] = high - low
        return excursions, ranges


def excursion_tail(x: float) -> float:
    r""":math:`P(\sup |B| > x)`.

    Example:
        >>> round(excursion_tail(2.241402727), 9)
        0.05
    """
    if x <= 0:
        return 1.0
    if x >= _MEET:
        return sum((-1) ** k * 4 * _normal_tail((2 * k + 1) * x) for k in range(_TERMS))
    odd = (2 * k + 1 for k in range(_TERMS))
    inside = sum((-1) ** (m // 2) / m * math.exp(-((m * math.pi / x) ** 2) / 8) for m in odd)
    return min(1.0, 1 - 4 / math.pi * inside)


def range_tail(x: float) -> float:
    r""":math:`P(\max B - \min B > x)`.

    Example:
        >>> round(range_tail(2.497672161), 9)
        0.05
    """
    if x <= 0:
        return 1.0
    if x >= _MEET:
        return sum((-1) ** (k - 1) * 8 * k * _normal_tail(k * x) for k in range(1, 2 * _TERMS))
    inside = 0.0
    for k in range(_TERMS):
        c = math.pi * (2 * k + 1)
        inside += 8 * (1 / x**2 + 1 / c**2) * math.exp(-((c / x) ** 2) / 2)
    return min(1.0, 1 - inside)


def _normal_tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2
