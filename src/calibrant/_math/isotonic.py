r"""The best increasing function of the scores, by pooling adjacent violators.

.. math:: \min_f \sum_i w_i \left( f(x_i) - y_i \right)^2 , \qquad f \text{ never falling}

Samples of equal score share a value. Neighbours in the wrong order are pooled to their mean until none are
left; one pass with a stack does it in O(n). The values are block means, so for outcomes in {0, 1} the same f
minimises every proper score, not only squares (Barlow and Brunk 1972).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit
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
    if weights is not None:
        counted = weights > 0
        scores, outcomes, weights = scores[counted], outcomes[counted], weights[counted]
    order = np.argsort(scores)
    masses = np.ones(len(order)) if weights is None else weights[order]
    return IsotonicBlocks(*_pool(scores[order], masses, masses * outcomes[order]))


@njit(cache=True, nogil=True)
def _pool(scores: Vector, masses: Vector, sums: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    """Pool ascending scores with their weights and weighted outcomes."""
    n = scores.shape[0]
    lower, upper, weight, total = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    top = -1
    i = 0
    while i < n:
        top += 1
        lower[top] = upper[top] = scores[i]
        weight[top] = total[top] = 0.0
        while i < n and scores[i] == upper[top]:  # a tie enters as one
            weight[top] += masses[i]
            total[top] += sums[i]
            i += 1
        # Multiplied out, sums of counts compare exactly. Equal means are pooled too.
        while top > 0 and total[top - 1] * weight[top] >= total[top] * weight[top - 1]:
            upper[top - 1] = upper[top]
            weight[top - 1] += weight[top]
            total[top - 1] += total[top]
            top -= 1
    steps = top + 1
    return lower[:steps].copy(), upper[:steps].copy(), total[:steps] / weight[:steps], weight[:steps].copy()
