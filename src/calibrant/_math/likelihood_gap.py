r"""The least log loss over changes of the log-odds by a bounded 1-Lipschitz amount, with a certificate.

For log-odds :math:`t_1 < \dots < t_n` with mean outcomes :math:`\bar y_j` and shares :math:`m_j` of the
weight,

.. math:: \min_h \sum_j m_j \left[ \log(1 + e^{t_j + h_j}) - \bar y_j (t_j + h_j) \right]
          \quad\text{subject to}\quad |h_{j+1} - h_j| \le t_{j+1} - t_j, \quad |h_j| \le 4 .

A primal-dual interior point method: with slacks s and multipliers z of the constraints :math:`A h \le b` each
step solves :math:`(F'' + A^T (z / s) A)\, dh = -F' - A^T (\mu / s)`, which is tridiagonal.

**Certificate.** F is convex, so no admissible h' is lower than h by more than
:math:`\max_{h'} \sum_j r_j (h'_j - h_j)` with :math:`r = -F'(h)`; and that maximum is the linear programme of
:mod:`calibrant._math.lipschitz` at the points t / 4, times four.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.lipschitz import lipschitz_maximum
from calibrant._math.logistic import FLOOR

Vector: TypeAlias = NDArray[np.float64]

BOUND = 4.0  # one over the largest slope of the logistic function
_MAX_STEPS = 200
_PRECISE = 1e-12
_TO_BOUNDARY = 0.99


class LikelihoodGap(NamedTuple):
    """What the best admissible change of the log-odds gains in nats, and that change."""

    value: float  # of the change found: never above the optimum
    upper_bound: float  # never below it
    log_odds: Vector  # (n,) distinct, ascending
    change: Vector  # (n,)


def likelihood_gap(scores: Vector, outcomes: Vector, weights: Vector | None = None) -> LikelihoodGap:
    """Mean log loss of scores ``(N,)`` less the least that an admissible change can reach."""
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
    return LikelihoodGap(max(value, 0.0), value + max(slack, 0.0), points, change)


class _Problem:
    """The programme; constraints in the order h <= 4, -h <= 4, dh <= d, -dh <= d."""

    def __init__(self, points: Vector, masses: Vector, sums: Vector) -> None:
        self._points, self._masses, self._sums = points, masses, sums
        n, distances = len(points), np.diff(points)
        self._ends = np.concatenate([np.full(2 * n, BOUND), distances, distances])

    def loss(self, change: Vector) -> float:
        """Mean log loss."""
        t = self._points + change
        return float(self._masses @ np.logaddexp(0, t) - self._sums @ t)

    def gradient(self, change: Vector) -> Vector:
        """Gradient of the loss."""
        return self._masses * _logistic(self._points + change) - self._sums

    def solve(self) -> Vector:
        """The change that minimises the loss, strictly inside the constraints."""
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
            except np.linalg.LinAlgError:  # as precise as it gets; the certificate says how precise
                break
            moved = self._product(step)
            turned = (centre + multipliers * moved) / slacks - multipliers
            length = min(_room(slacks, -moved), _room(multipliers, turned))
            change = change + length * step
            multipliers = multipliers + length * turned
            # No step takes more than this share of a slack; what is lost beyond is rounding.
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

    def _hessian(self, curvature: Vector, stiffness: Vector) -> NDArray[np.float64]:
        """Upper banded form ``(2, n)``."""
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
    """How far to go before a value reaches zero, nearly."""
    falling = step < 0
    if not falling.any():
        return 1.0
    return min(1.0, _TO_BOUNDARY * float((values[falling] / -step[falling]).min()))
