r"""Isotonic regression with one more sample of either outcome, at any score.

With the masses and sums of outcomes at ascending points as steps of a path, isotonic regression gives the
slopes of the greatest convex minorant of that path. A further event at point j is a step (1, 1) before the
step of j; its slope is that of the edge which spans it. From j to j + 1 that step changes places with one
of the path, which moves a single corner, so that one pass finds the slopes for all j. A sample without the
event is the same path walked backwards.

References: Vovk, Petej and Fedorova, "Large-scale probabilistic predictors with and without guarantees of
validity", NIPS 2015, algorithms 1 and 2.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit

Vector: TypeAlias = NDArray[np.float64]


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
    """Probabilities from isotonic regression with one more sample, first without, then with the event.

    A sample of weight k counts like k copies; the further sample counts once.
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
    count = len(masses)
    x, y = (np.concatenate([[-1.0, 0.0], np.cumsum(part)]) for part in (masses, sums))
    found = np.empty(count)
    _walk(x, y, np.empty(count + 2, np.int64), found)
    return found


@njit
def _walk(x: Vector, y: Vector, corners: NDArray[np.int64], found: Vector) -> None:
    """Fill ``found``; ``corners`` of the minorant run from right to left and end where the edge begins."""
    num = 0
    for i in range(len(x) - 1, -1, -1):
        while num > 1 and _is_above(x, y, corners[num - 1], i, corners[num - 2]):
            num -= 1
        corners[num] = i
        num += 1
    for j in range(len(found)):
        first, second = corners[num - 1], corners[num - 2]
        found[j] = (y[second] - y[first]) / (x[second] - x[first])
        x[j + 1] = x[j] + x[j + 2] - x[j + 1]  # the two steps change places
        y[j + 1] = y[j] + y[j + 2] - y[j + 1]
        if _is_above(x, y, j + 1, first, second):
            continue
        num -= 1
        while num > 1 and _is_above(x, y, corners[num - 1], j + 1, corners[num - 2]):
            num -= 1
        corners[num] = j + 1
        num += 1


@njit(inner=True)
def _is_above(x: Vector, y: Vector, point: int, left: int, right: int) -> bool:
    """Return True if a point is on or above the line between two others, one on each side."""
    return (y[point] - y[left]) * (x[right] - x[left]) >= (y[right] - y[left]) * (x[point] - x[left])
