r"""Gains in log loss and squared loss from bounded 1-Lipschitz changes of scores.

**Log loss**, over changes of the log-odds, with a certificate.

For log-odds :math:`t_1 < \dots < t_n` with mean outcomes :math:`\bar y_j` and shares :math:`m_j` of the
weight,

.. math:: \min_h \sum_j m_j \left[ \log(1 + e^{t_j + h_j}) - \bar y_j (t_j + h_j) \right]
          \quad\text{subject to}\quad |h_{j+1} - h_j| \le t_{j+1} - t_j, \quad |h_j| \le 4 .

A primal-dual interior point method: with slacks s and multipliers z of the constraints :math:`A h \le b` each
step solves :math:`(F'' + A^T (z / s) A)\, dh = -F' - A^T (\mu / s)`, which is tridiagonal.

**Certificate.** F is convex, so no admissible h' is lower than h by more than
:math:`\max_{h'} \sum_j r_j (h'_j - h_j)` with :math:`r = -F'(h)`; and that maximum is the linear programme of
:mod:`calibrant._math.lipschitz` at the points t / 4, times four.

**Squared loss**, over recalibrations that move a score by a 1-Lipschitz amount, exact and with a certificate.

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
right one moves as a whole (a position is ``key + 2 x`` with a key that never changes). The new zero is found
by walking from the old one.

**Backward.** :math:`\kappa_n` is the zero of the last G, and :math:`\kappa_j` the point of
:math:`[\kappa_{j+1} - 2 d_j, \kappa_{j+1}]` nearest to the zero of the j-th.

**Certificate.** With :math:`u_j = 2 \sum_{i \le j} m_i (\kappa_i - \bar y_i)`, convexity and summation by
parts bound the sum of squares of any other feasible κ from below by that of this one, less

.. math:: |u_n| + \sum_{j<n} \left[ u_j^+ (2 d_j - \kappa_{j+1} + \kappa_j)
          + u_j^- (\kappa_{j+1} - \kappa_j) \right] .
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibrant._math.jit import njit
from calibrant._math.lipschitz import Matrix, Vector, lipschitz_maximum, merge_ties, sorted_residuals
from calibrant._math.scores import FLOOR

LEFT, RIGHT = 0, 1
BOUND = 4.0  # one over the largest slope of the logistic function
_MAX_STEPS = 200
_PRECISE = 1e-12
_TO_BOUNDARY = 0.99


class ProcessingGap(NamedTuple):
    value: float  # of the change found: never above the optimum
    upper_bound: float  # never below it
    points: Vector  # (n,) distinct scores, or log-odds, ascending
    changed: Vector  # (n,) the recalibrated scores, or the change of the log-odds


def likelihood_gap(scores: Vector, outcomes: Vector, weights: Vector | None = None) -> ProcessingGap:
    """Mean log loss, in nats, of scores ``(N,)`` minus the least after an admissible change."""
    mass = np.ones(len(scores)) if weights is None else weights
    counted = mass > 0
    floored = np.clip(scores[counted], FLOOR, 1 - FLOOR)
    points, place = np.unique(np.log(floored) - np.log1p(-floored), return_inverse=True)
    masses = np.bincount(place, mass[counted]) / mass[counted].sum()
    sums = np.bincount(place, mass[counted] * outcomes[counted]) / mass[counted].sum()
    problem = _Problem(points, masses, sums)
    change = problem.solve()
    value = problem.loss(np.zeros_like(change)) - problem.loss(change)
    residuals = -problem.gradient(change)
    slack = BOUND * lipschitz_maximum(points / BOUND, residuals).upper_bound - float(residuals @ change)
    return ProcessingGap(max(value, 0.0), value + max(slack, 0.0), points, change)


class _Problem:
    """The programme; constraints in the order h <= 4, -h <= 4, dh <= d, -dh <= d."""

    def __init__(self, points: Vector, masses: Vector, sums: Vector) -> None:
        self._points, self._masses, self._sums = points, masses, sums
        n, distances = len(points), np.diff(points)
        self._ends = np.concatenate([np.full(2 * n, BOUND), distances, distances])

    def loss(self, change: Vector) -> float:
        t = self._points + change
        return float(self._masses @ np.logaddexp(0, t) - self._sums @ t)

    def gradient(self, change: Vector) -> Vector:
        return self._masses * _logistic(self._points + change) - self._sums

    def solve(self) -> Vector:
        from scipy.linalg import solveh_banded

        change = np.zeros(len(self._points))
        slacks = self._ends.copy()
        multipliers = 1 / len(slacks) / slacks
        for _ in range(_MAX_STEPS):
            gap = float(slacks @ multipliers)
            dual = self.gradient(change) + self._transposed(multipliers)
            if gap < _PRECISE and np.abs(dual).sum() * BOUND < _PRECISE:
                break
            centre = 0.1 * gap / len(slacks)
            p = _logistic(self._points + change)
            banded = self._hessian(self._masses * p * (1 - p), multipliers / slacks)
            right = -self.gradient(change) - self._transposed(centre / slacks)
            try:
                single = len(right) == 1  # which scipy's tridiagonal solver does not take
                step = right / banded[1] if single else solveh_banded(banded, right, check_finite=False)
            except np.linalg.LinAlgError:  # no further precision possible; the certificate bounds it
                break
            moved = self._product(step)
            turned = (centre + multipliers * moved) / slacks - multipliers
            length = min(_room(slacks, -moved), _room(multipliers, turned))
            change = change + length * step
            multipliers = multipliers + length * turned
            # No step takes more than this share of a slack.
            slacks = np.maximum(self._ends - self._product(change), (1 - _TO_BOUNDARY) * slacks)
        return change

    def _product(self, change: Vector) -> Vector:
        steps = np.diff(change)
        return np.concatenate([change, -change, steps, -steps])

    def _transposed(self, multipliers: Vector) -> Vector:
        n = len(self._points)
        walls = multipliers[:n] - multipliers[n : 2 * n]
        chain = multipliers[2 * n : 3 * n - 1] - multipliers[3 * n - 1 :]
        return walls - np.diff(chain, prepend=0.0, append=0.0)

    def _hessian(self, curvature: Vector, stiffness: Vector) -> Matrix:
        n = len(self._points)
        links = stiffness[2 * n : 3 * n - 1] + stiffness[3 * n - 1 :]
        banded = np.zeros((2, n))
        banded[0, 1:] = -links
        banded[1] = curvature + stiffness[:n] + stiffness[n : 2 * n]
        banded[1, :-1] += links
        banded[1, 1:] += links
        return banded


def _logistic(t: Vector) -> Vector:
    return 0.5 * (1 + np.tanh(t / 2))


def _room(values: Vector, step: Vector) -> float:
    falling = step < 0
    if not falling.any():
        return 1.0
    return min(1.0, _TO_BOUNDARY * float((values[falling] / -step[falling]).min()))


def post_processing_gap(scores: Vector, outcomes: Vector, weights: Vector | None = None) -> ProcessingGap:
    """Mean squared loss of scores ``(N,)`` minus the least after a 1-Lipschitz change."""
    _, ascending, residuals, shares = sorted_residuals(scores, outcomes, weights)
    points, masses, ties = merge_ties(ascending, shares)
    sums = np.bincount(ties, shares * (residuals + ascending), len(points))
    counted = masses > 0
    points, masses = points[counted], masses[counted]
    fitted, value, slack = _regress(points, sums[counted] / masses, masses)
    return ProcessingGap(max(value, 0.0), value + slack, points, fitted)


@njit
def _regress(points: Vector, means: Vector, masses: Vector) -> tuple[Vector, float, float]:
    """The fit, its gain over the points themselves, and a bound on any further gain."""
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
