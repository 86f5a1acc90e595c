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


class VennAbers(NamedTuple):
    points: Vector  # (k,) distinct, ascending
    lower: Vector  # (k,) from each point on, up to the next; 0 below the first
    upper: Vector  # (k,) above the point before, up to each point; 1 beyond the last

    def steps(self) -> tuple[Vector, Vector, Vector]:
        """Ends of the steps of both functions, and their values there: at each point and between points.

        The last step has no end. Adjacent steps ``(previous, end]`` with equal values are merged.
        """
        ends = np.empty(2 * len(self.points) + 1)
        ends[0:-1:2], ends[1:-1:2], ends[-1] = (
            np.nextafter(self.points, -np.inf),
            self.points,
            self.points[-1],
        )
        lower = np.append(0.0, np.repeat(self.lower, 2))
        upper = np.append(np.repeat(self.upper, 2), 1.0)
        differs = np.append((np.diff(lower) != 0) | (np.diff(upper) != 0), True)
        return ends[differs], lower[differs], upper[differs]


def venn_abers(scores: Vector, outcomes: Vector, weights: Vector) -> VennAbers:
    r"""Probabilities from isotonic regression with one more sample, first without, then with the event.

    A sample of weight k counts like k copies; the further sample counts once. With the masses and sums of
    outcomes at ascending points as steps of a path, isotonic regression gives the slopes of the greatest
    convex minorant of that path. A further event at point j is a step (1, 1) before the step of j; its slope
    is that of the edge which spans it. From j to j + 1 that step changes places with one of the path, which
    moves a single corner, so that one pass finds the slopes for all j. A sample without the event is the same
    path walked backwards.

    References: Vovk, Petej and Fedorova, "Large-scale probabilistic predictors with and without guarantees of
    validity", NIPS 2015, algorithms 1 and 2.
    """
    counted = weights > 0
    points, place = np.unique(scores[counted], return_inverse=True)
    parts = (weights[counted], (weights * outcomes)[counted])
    masses, sums = (np.bincount(place, part, len(points)).astype(np.float64) for part in parts)
    upper = _slopes(masses, sums)
    lower = 1 - _slopes(masses[::-1], (masses - sums)[::-1])[::-1]
    return VennAbers(points, np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0))


def _slopes(masses: Vector, sums: Vector) -> Vector:
    """Slope of a further step (1, 1) before each step ``(k,)``."""
    from calibrant._math.table_kernels import walk_minorant  # compiled

    count = len(masses)
    x, y = (np.concatenate([[-1.0, 0.0], np.cumsum(part)]) for part in (masses, sums))
    found = np.empty(count)
    walk_minorant(x, y, np.empty(count + 2, np.int64), found)
    return found
