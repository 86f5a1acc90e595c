r"""The best increasing function of the scores.

.. math:: \min_f \sum_i w_i \left( f(x_i) - y_i \right)^2 , \qquad f \text{ never falling}

Samples of equal score share a value. The values are block means, so for outcomes in {0, 1} the same f
minimises every proper score, not only squares (Barlow and Brunk 1972).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]


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
    if weights is not None and not weights.all():
        counted = weights > 0
        scores, outcomes, weights = scores[counted], outcomes[counted], weights[counted]
    order = np.argsort(scores)
    ranked = scores[order]
    distinct = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))  # ties enter as one
    points = ranked[distinct]
    masses = np.ones(len(order)) if weights is None else weights[order]
    masses, sums = (np.add.reduceat(part, distinct) for part in (masses, masses * outcomes[order]))
    return blocks_of_points(points, masses, sums)


def blocks_of_points(points: Vector, masses: Vector, sums: Vector) -> IsotonicBlocks:
    """Regress on ascending points, no two alike, the weights there and the weighted sums of outcomes."""
    from scipy.optimize import isotonic_regression  # heavy

    fitted: Any = isotonic_regression(sums / masses, weights=masses)
    starts = fitted.blocks[:-1]
    weight, total = np.add.reduceat(masses, starts), np.add.reduceat(sums, starts)
    # Multiplied out, sums of counts compare exactly. Equal means are pooled too.
    rises = np.append(True, total[:-1] * weight[1:] < total[1:] * weight[:-1])
    first = np.flatnonzero(rises)
    starts = starts[first]
    weight, total = np.add.reduceat(weight, first), np.add.reduceat(total, first)
    ends = np.append(starts[1:], len(points)) - 1
    return IsotonicBlocks(points[starts], points[ends], total / weight, weight)
