r"""Least squares over recalibrations that move a score by a 1-Lipschitz amount: exact, with a certificate.

For points :math:`x_1 < \dots < x_n` with mean outcomes :math:`\bar y_j` and shares :math:`m_j` of the weight,

.. math:: \min_\kappa \sum_j m_j (\kappa_j - \bar y_j)^2 \quad\text{subject to}\quad
          0 \le \kappa_{j+1} - \kappa_j \le 2 d_j , \qquad d_j = x_{j+1} - x_j .

That is :math:`\kappa = x + \eta` with :math:`|\eta_{j+1} - \eta_j| \le d_j`. The bounds 0 ≤ κ ≤ 1 need no
care: clipping κ to the range of the mean outcomes keeps its differences within their bounds and raises no
square.

**Forward.** Let :math:`F_j(\kappa)` be the least sum of the first j terms with :math:`\kappa_j = \kappa`; it
is convex and piecewise quadratic, so half its derivative G is piecewise linear, continuous and increasing,
with one zero a. Minimising over :math:`\kappa' \in [\kappa - 2 d, \kappa]` leaves G as it is left of a, makes
it zero on :math:`[a, a + 2 d]` and moves what was right of a by 2 d. Adding a term adds
:math:`m (\kappa - \bar y)`. So the changes of slope of G lie on two stacks, left and right of a, of which the
right one moves as a whole (a position is ``key + 2 x`` with a key that never changes); the new zero is found
by walking from the old one.

**Backward.** :math:`\kappa_n` is the zero of the last G, and :math:`\kappa_j` the point of
:math:`[\kappa_{j+1} - 2 d_j, \kappa_{j+1}]` nearest to the zero of the j-th.

**Certificate.** With :math:`u_j = 2 \sum_{i \le j} m_i (\kappa_i - \bar y_i)`, convexity and summation by
parts bound the sum of squares of any other feasible κ from below by that of this one, less

.. math:: |u_n| + \sum_{j<n} \left[ u_j^+ (2 d_j - \kappa_{j+1} + \kappa_j)
          + u_j^- (\kappa_{j+1} - \kappa_j) \right] .
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit
from calibrant._math.lipschitz import SortedResiduals, merge_ties

Vector: TypeAlias = NDArray[np.float64]

LEFT, RIGHT = 0, 1


class PostProcessingGap(NamedTuple):
    """What the best recalibration gains in squared loss, and that recalibration."""

    value: float  # of the recalibration found: never above the optimum
    upper_bound: float  # never below it
    scores: Vector  # (n,) distinct, ascending
    recalibrated: Vector  # (n,)


def post_processing_gap(scores: Vector, outcomes: Vector, weights: Vector | None = None) -> PostProcessingGap:
    """Mean squared loss of scores ``(N,)`` less the least that a 1-Lipschitz change of them can reach."""
    sample = SortedResiduals.of(scores, outcomes, weights)
    shares = sample.shares()
    points, masses, ties = merge_ties(sample.scores, shares)
    sums = np.bincount(ties, shares * (sample.residuals + sample.scores), len(points))
    counted = masses > 0
    points, masses = points[counted], masses[counted]
    fitted, value, slack = _regress(points, sums[counted] / masses, masses)
    return PostProcessingGap(max(value, 0.0), value + slack, points, fitted)


@njit
def _regress(points: Vector, means: Vector, masses: Vector) -> tuple[Vector, float, float]:
    """The fit, what it gains over the points themselves, and by how much the optimum may gain more."""
    n = points.shape[0]
    keys = np.empty((2, 2 * n))  # position = key on the left, key + 2 x on the right
    changes = np.empty((2, 2 * n))  # slope of G beyond the breakpoint less the slope on the near side
    top = np.zeros(2, np.int64)
    zeros = np.empty(n)
    zero, slope = means[0], masses[0]
    zeros[0] = zero
    for j in range(1, n):
        for side in range(2):
            keys[side, top[side]] = zero - 2 * side * points[j - 1]
            changes[side, top[side]] = slope
            top[side] += 1
        slope = masses[j]
        height = masses[j] * (zero - means[j])  # of G at the position reached
        ahead = RIGHT if height < 0 else LEFT
        sign = 1.0 if height < 0 else -1.0
        while True:
            step = -height / slope
            if top[ahead] == 0:
                break
            last = top[ahead] - 1
            position = keys[ahead, last] + 2 * ahead * points[j]
            if step * sign <= (position - zero) * sign:
                break
            height += slope * (position - zero)
            zero = position
            behind = 1 - ahead
            keys[behind, top[behind]] = position - 2 * behind * points[j]
            changes[behind, top[behind]] = -changes[ahead, last]
            top[behind] += 1
            top[ahead] = last
            slope = max(slope + changes[ahead, last], masses[j])  # rounding must not make it fall below
        zero += step
        zeros[j] = zero

    fitted = np.empty(n)
    fitted[n - 1] = zeros[n - 1]
    for j in range(n - 2, -1, -1):
        fitted[j] = min(max(zeros[j], fitted[j + 1] - 2 * (points[j + 1] - points[j])), fitted[j + 1])

    gain = 0.0
    slack = 0.0
    pull = 0.0  # u_j
    for j in range(n):
        gain += masses[j] * (points[j] - fitted[j]) * (points[j] + fitted[j] - 2 * means[j])
        pull += 2 * masses[j] * (fitted[j] - means[j])
        if j < n - 1:
            rise = fitted[j + 1] - fitted[j]
            room = 2 * (points[j + 1] - points[j]) - rise
            slack += max(pull, 0.0) * max(room, 0.0) + max(-pull, 0.0) * max(rise, 0.0)
    return fitted, gain, slack + abs(pull)
