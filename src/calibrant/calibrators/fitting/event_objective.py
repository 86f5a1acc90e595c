r"""The likelihood loss and the Brier score of events, with derivatives, in one compiled pass.

For an event with two outcomes the focal map has one number to map: the log-odds a >= 0 of the likelier
outcome at temperature T. Its log-odds after the map are :math:`\phi = h(-a) - h(a)` with

.. math:: h(s) = -L - \gamma (s - L) - \log(1 + \gamma R), \quad L = \log(1 + e^s), \quad R = L e^{-s},

where s are the log-odds against an outcome. What :mod:`calibrant.calibrators.fitting.focal_rows` does for
tables of classes is here a few dozen operations a sample, without a table in between.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit


def event_expansion(
    gaps: NDArray[np.float64],
    wrong: NDArray[np.bool_],
    shares: NDArray[np.float64],
    temperature: float,
    gamma: float,
    brier: bool,
) -> NDArray[np.float64]:
    """Value, derivatives by log T and gamma, and second ones (by log T, mixed, by gamma), ``(6,)``.

    ``gaps`` are the absolute log-odds before the map, ``wrong`` tells where the likelier outcome did not
    happen.
    """
    sums = np.zeros(6)
    _add_samples(gaps, wrong, shares, temperature, gamma, brier, sums)
    return sums


@njit
def _add_samples(
    gaps: NDArray[np.float64],
    wrong: NDArray[np.bool_],
    shares: NDArray[np.float64],
    temperature: float,
    gamma: float,
    brier: bool,
    sums: NDArray[np.float64],
) -> None:
    for i in range(len(gaps)):
        s = -gaps[i] / temperature
        odds = math.exp(s)
        total = math.log1p(odds)
        hit, miss = 1 / (1 + odds), odds / (1 + odds)
        ratio = total / odds if odds > 0 else 1.0
        near = _outcome(s, total, hit, miss, ratio, gamma)
        far = _outcome(-s, total - s, miss, hit, (total - s) * odds, gamma)
        log_odds = near[0] - far[0]
        by_s, by_s_twice = near[1] + far[1], near[2] - far[2]
        by_log_t, by_gamma = -s * by_s, near[3] - far[3]  # ds / d log T = -s
        second = (by_s_twice * s * s + by_s * s, -s * (near[4] + far[4]), near[5] - far[5])
        loss, slope, bend = _loss(log_odds, wrong[i], brier)
        sums[0] += shares[i] * loss
        sums[1] += shares[i] * slope * by_log_t
        sums[2] += shares[i] * slope * by_gamma
        sums[3] += shares[i] * (bend * by_log_t * by_log_t + slope * second[0])
        sums[4] += shares[i] * (bend * by_log_t * by_gamma + slope * second[1])
        sums[5] += shares[i] * (bend * by_gamma * by_gamma + slope * second[2])


@njit(inner=True)
def _outcome(
    s: float, total: float, prob: float, miss: float, ratio: float, gamma: float
) -> tuple[float, float, float, float, float, float]:
    """h, and its derivatives by s, twice by s, by gamma, mixed, twice by gamma."""
    damped = 1 + gamma * ratio
    ratio_slope = prob - ratio
    ratio_bend = -miss * prob - ratio_slope
    return (
        -total - gamma * (s - total) - math.log(damped),
        -miss - gamma * prob - gamma * ratio_slope / damped,
        (gamma - 1) * miss * prob - gamma * (ratio_bend - gamma * ratio_slope**2 / damped) / damped,
        total - s - ratio / damped,
        -prob - ratio_slope / damped**2,
        (ratio / damped) ** 2,
    )


@njit(inner=True)
def _loss(log_odds: float, wrong: bool, brier: bool) -> tuple[float, float, float]:
    """Loss of one sample as a function of the log-odds of the likelier outcome, and its two derivatives."""
    small = math.exp(-abs(log_odds))
    hit, miss = 1 / (1 + small), small / (1 + small)
    if log_odds < 0:  # by rounding alone
        hit, miss = miss, hit
    spread = hit * miss
    if brier:
        off = hit if wrong else miss  # how far the probability is off
        sign = 1 if wrong else -1
        bend = 2 * spread**2 + 2 * sign * off * spread * (miss - hit)
        return off * off, 2 * sign * off * spread, bend
    negative_log_hit = math.log1p(small) + max(-log_odds, 0.0)
    return negative_log_hit + (log_odds if wrong else 0.0), hit if wrong else -miss, spread
