r"""Isotonic regression: the best increasing function of the scores.

.. math:: \min_f \sum_i w_i \left( f(x_i) - y_i \right)^2 , \qquad f \text{ never falling}

Samples of equal score share a value. The values are block means, so for outcomes in {0, 1} the same f
minimises every proper score, not only squares (Barlow and Brunk 1972).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.sorting import ascending_order

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Steps: TypeAlias = NDArray[np.float64]


class IsotonicBlocks(NamedTuple):
    """Steps of the increasing function, with distinct values."""

    lower: Vector  # (b,) lowest score of the step
    upper: Vector  # (b,) highest score of the step
    values: Vector  # (b,) ascending
    weights: Vector  # (b,)

    def at(self, scores: Vector) -> Vector:
        """Value at any scores: linear between the steps, constant beyond them."""
        knots = np.stack([self.lower, self.upper], axis=1).ravel()
        return np.interp(scores, knots, np.repeat(self.values, 2))


def isotonic_blocks(scores: Vector, outcomes: Vector, weights: Vector | None = None) -> IsotonicBlocks:
    """Regress outcomes ``(N,)`` on scores ``(N,)``; samples of weight zero are ignored."""
    order = ascending_order(scores)
    masses = np.ones(len(scores)) if weights is None else weights
    tables = [np.asarray(part, np.float64)[order][None] for part in (scores, outcomes, masses)]
    return IsotonicBlocks(*_pooled(*tables)[0][:, 0])


class IsotonicTables(NamedTuple):
    """Steps of several increasing functions; short rows repeat the end of their last step."""

    lower: Matrix  # (K, b)
    upper: Matrix  # (K, b)
    values: Matrix  # (K, b)
    num_steps: Indices  # (K,)


def isotonic_tables(scores: Matrix, outcomes: Matrix, weights: Matrix) -> IsotonicTables:
    (lower, upper, values, _), num_steps = _pooled(scores, outcomes, weights)
    continued = np.arange(lower.shape[1]) >= num_steps[:, None]
    return IsotonicTables(np.where(continued, upper, lower), upper, values, num_steps)


def _pooled(scores: Matrix, outcomes: Matrix, weights: Matrix) -> tuple[Steps, Indices]:
    """Lowest and highest score, value and weight ``(4, K, b)`` of the steps, and steps per row."""
    from calibrant._math.table_kernels import pool_adjacent  # compiled

    steps, num_steps = np.empty((4, *scores.shape)), np.empty(len(scores), np.int64)
    scores, outcomes, weights = (np.ascontiguousarray(part) for part in (scores, outcomes, weights))
    pool_adjacent(scores, outcomes, weights, steps, num_steps)
    place = np.minimum(np.arange(num_steps.max(initial=0)), num_steps[:, None] - 1)
    return np.take_along_axis(steps, place[None], axis=2), num_steps
