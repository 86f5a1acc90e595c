r"""The largest value of many linear functionals over the same bounded Lipschitz functions.

As :mod:`calibrant._math.lipschitz`, whose text explains it, but the optimum alone, for many vectors of
residuals at the same points: the forward pass without the backward one. The maximum :math:`M_j` of
:math:`V_j` is kept as it goes. A slide leaves it as it is. Adding :math:`r w` with :math:`r > 0` raises it by
:math:`r w_0`, where :math:`w_0` is the right end of the interval of maxima, and then by the slope that is
left times the way to the next breakpoint, until the slope is used up or the wall is reached; r < 0 is the
mirror image.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit

LEFT, RIGHT = 0, 1


def lipschitz_values(points: NDArray[np.float64], residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """The optima ``(r,)`` for residuals ``(r, n)`` at ascending, perhaps tied points ``(n,)``."""
    num_rows, n = residuals.shape
    values = np.empty(num_rows)
    keys = np.empty((2, n))  # position from its own side = key - x
    masses = np.empty((2, n))
    bottom = np.zeros(2, np.int64)
    top = np.zeros(2, np.int64)  # first free place
    _find(points, residuals, keys, masses, bottom, top, values)
    return values


@njit
def _find(
    points: NDArray[np.float64],
    residuals: NDArray[np.float64],
    keys: NDArray[np.float64],
    masses: NDArray[np.float64],
    bottom: NDArray[np.int64],
    top: NDArray[np.int64],
    values: NDArray[np.float64],
) -> None:
    num_rows, n = residuals.shape
    for row in range(num_rows):
        bottom[:] = 0
        top[:] = 0
        value = 0.0
        for j in range(n):
            rest = abs(residuals[row, j])
            if rest == 0.0:
                continue
            x = points[j]
            here = LEFT if residuals[row, j] > 0 else RIGHT
            there = 1 - here
            for side in range(2):
                while bottom[side] < top[side] and keys[side, bottom[side]] - x <= -1.0:
                    bottom[side] += 1
            first, last, free = bottom[there], top[there] - 1, top[here]
            # Positions are measured from `here`: from -1 at its own wall to 1 at the other.
            position = x - keys[there, last] if last >= first else 1.0
            value += rest * position
            while last >= first and masses[there, last] <= rest:
                keys[here, free] = position + x
                masses[here, free] = masses[there, last]
                rest -= masses[there, last]
                last -= 1
                free += 1
                following = x - keys[there, last] if last >= first else 1.0
                value += rest * (following - position)
                position = following
            if rest > 0.0:
                keys[here, free] = position + x
                masses[here, free] = rest
                free += 1
                if last >= first:
                    masses[there, last] -= rest
            top[there], top[here] = last + 1, free
        values[row] = max(value, 0.0)
