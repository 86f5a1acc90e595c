r"""The best increasing function of the scores.

.. math:: \min_f \sum_i w_i \left( f(x_i) - y_i \right)^2 , \qquad f \text{ never falling}

Samples of equal score share a value. The values are block means, so for outcomes in {0, 1} the same f
minimises every proper score, not only squares (Barlow and Brunk 1972).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Steps: TypeAlias = NDArray[np.float64]


class IsotonicBlocks(NamedTuple):
    """The steps of the increasing function, one entry per step; no two steps have the same value."""

    lower: Vector  # (b,) lowest score of the step
    upper: Vector  # (b,) highest score of the step
    values: Vector  # (b,) ascending
    weights: Vector  # (b,)

    def at(self, scores: Vector) -> Vector:
        """The function at any scores: straight between the steps, constant beyond them."""
        knots = np.stack([self.lower, self.upper], axis=1).ravel()
        return np.interp(scores, knots, np.repeat(self.values, 2))


def isotonic_blocks(scores: Vector, outcomes: Vector, weights: Vector | None = None) -> IsotonicBlocks:
    """Regress outcomes ``(N,)`` on scores ``(N,)``; samples of weight zero do not count."""
    order = np.argsort(scores)
    masses = np.ones(len(scores)) if weights is None else weights
    tables = [np.asarray(part, np.float64)[order][None] for part in (scores, outcomes, masses)]
    return IsotonicBlocks(*_pooled(*tables)[0][:, 0])


class IsotonicTables(NamedTuple):
    """The steps of several increasing functions; short rows are continued with their last step's end."""

    lower: Matrix  # (K, b)
    upper: Matrix  # (K, b)
    values: Matrix  # (K, b)
    num_steps: Indices  # (K,)

    @property
    def knots(self) -> tuple[Matrix, Matrix]:
        """Places and values ``(K, 2b)`` between which the functions are straight."""
        places = np.stack([self.lower, self.upper], axis=2).reshape(len(self.lower), -1)
        return places, np.repeat(self.values, 2, axis=1)


def isotonic_tables(scores: Matrix, outcomes: Matrix, weights: Matrix) -> IsotonicTables:
    """:func:`isotonic_blocks` of each row of ``(K, N)``, whose scores are ascending."""
    (lower, upper, values, _), num_steps = _pooled(scores, outcomes, weights)
    continued = np.arange(lower.shape[1]) >= num_steps[:, None]
    return IsotonicTables(np.where(continued, upper, lower), upper, values, num_steps)


def isotonic_curves(points: Vector, weights: Vector, sums: Matrix, positions: Vector) -> Matrix:
    """The functions ``(r, P)`` at some positions, of weighted sums of outcomes ``(r, n)`` at the points."""
    points, weights = np.broadcast_to(points, sums.shape), np.broadcast_to(weights, sums.shape)
    knots = isotonic_tables(points, sums / weights, weights).knots
    return np.array([np.interp(positions, *each) for each in zip(*knots, strict=True)])


def _pooled(scores: Matrix, outcomes: Matrix, weights: Matrix) -> tuple[Steps, Indices]:
    """Lowest and highest score, value and weight ``(4, K, b)`` of the steps, and how many each row has."""
    from calibrant._math.table_kernels import pool_adjacent  # compiled

    steps, num_steps = np.empty((4, *scores.shape)), np.empty(len(scores), np.int64)
    scores, outcomes, weights = (np.ascontiguousarray(part) for part in (scores, outcomes, weights))
    pool_adjacent(scores, outcomes, weights, steps, num_steps)
    place = np.minimum(np.arange(num_steps.max(initial=0)), num_steps[:, None] - 1)
    return np.take_along_axis(steps, place[None], axis=2), num_steps
