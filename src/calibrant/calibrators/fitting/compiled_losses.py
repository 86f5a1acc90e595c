r"""Losses with derivatives in compiled passes over rows of classes, or over events and their opposites.

The formulas are those of :mod:`calibrant.calibrators.fitting.objectives`, which makes a table of every term;
here they are summed up row by row. Nearly all of many classes have a small probability q: for these
:math:`\log(1 - q)` and its power are series, without a branch. The few others are put right one by one.

The logit of the top class after the map is h of the log-odds s against that class,

.. math:: h(s) = -L - \gamma (s - L) - \log(1 + \gamma R), \quad L = \log(1 + e^s), \quad R = L e^{-s},
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit
from calibrant._math.table_kernels import moments, set_powers_of_two
from calibrant.calibrators.fitting.samples import LOG2_E, Block

_LARGE = 1e300
_SMALL, _SMALL_POWER = 1 / 64, 1 / 8  # the series are exact up to so large a q, and q times the exponent
_Six: TypeAlias = tuple[float, float, float, float, float, float]


def class_expansion(block: Block, temperature: float, gamma: float, brier: bool) -> NDArray[np.float64]:
    """Loss, derivatives by log T and gamma, and second ones (by log T, mixed, by gamma), ``(6,)``."""
    return _sums_of_rows(block.below.numpy(), *_columns(block), 1 / temperature, gamma, brier)


def _columns(block: Block) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The second largest logit, whether the top class is wrong, the true one, and the share of each row."""
    columns = (block.second[:, 0], block.wrong[:, 0], block.truth[:, 0], block.shares)
    second, wrong, truth, shares = (column.contiguous().numpy() for column in columns)
    return second, wrong, truth, shares


@njit
def _sums_of_rows(
    below: NDArray[np.float64],
    second: NDArray[np.float64],
    wrong: NDArray[np.bool_],
    truth: NDArray[np.int64],
    shares: NDArray[np.float64],
    beta: float,
    gamma: float,
    brier: bool,
) -> NDArray[np.float64]:
    sums = np.zeros(6)
    width = below.shape[1]
    ratios, log_miss, power = np.empty(width), np.empty(width), np.empty(width)
    for i in range(len(second)):
        set_powers_of_two(below[i], beta * LOG2_E, ratios)  # odds of the others against the second class
        largest = second[i] * beta
        total, first, square = moments(below[i], ratios, beta, largest)
        log_odds = largest + math.log(total)  # against the top class
        odds = math.exp(log_odds)
        log_total = math.log1p(odds)
        base = largest - log_total  # log-probability of the second class
        first, square = first / total, square / total
        miss = odds / (1 + odds)
        mean = miss * first
        centre, variance = mean - log_total, miss * square - mean * mean
        _set_powers(ratios, math.exp(base), gamma, log_miss, power)
        top = _top(log_odds, odds, log_total, gamma, first, square)
        others = _weighted(below[i], ratios, log_miss, power, beta, base, gamma, centre, variance, top)
        against = base + math.log(others[0]) - top[0]  # log-odds against the top class, after the map
        hit, share = 1 / (1 + math.exp(against)), 1 / (1 + math.exp(-against)) / others[0]
        # Derivatives minus those of the top class keep the digits of confident rows.
        by_t, by_gamma = share * others[1], share * others[2]
        of_all = (
            math.log1p(math.exp(against)),
            by_t,
            by_gamma,
            share * others[3] - by_t * by_t,
            share * others[4] - by_t * by_gamma,
            share * others[5] - by_gamma * by_gamma,
        )
        label = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        if brier:
            label = _prob(hit, label, of_all)
            _add_square(label, shares[i], sums)
            for k in range(width):
                log_q = below[i, k] * beta + base
                other = _other(log_q, ratios[k] * math.exp(base), log_miss[k], gamma, centre, variance)
                prob = power[k] * ratios[k] / (1 + gamma * other[0]) * share
                expanded = _prob(prob, _less(other, top), of_all)
                _add_square(expanded, shares[i], sums)
                if wrong[i] and k == truth[i]:
                    label = expanded
            sums[0] += shares[i]
            for j in range(6):
                sums[j] -= 2 * shares[i] * label[j]
            continue
        if wrong[i]:
            k = int(truth[i])
            log_q = below[i, k] * beta + base
            other = _other(log_q, math.exp(log_q), log_miss[k], gamma, centre, variance)
            value = log_q - gamma * log_miss[k] - math.log1p(gamma * other[0])
            label = _less((value, other[1], other[2], other[3], other[4], other[5]), top)
        for j in range(6):
            sums[j] += shares[i] * (of_all[j] - label[j])
    return sums


def event_expansion(block: Block, temperature: float, gamma: float, brier: bool) -> NDArray[np.float64]:
    """:func:`class_expansion` of events, which need no sums over classes; the Brier score is (p - y)²."""
    return _sums_of_events(*_columns(block), 1 / temperature, gamma, brier)


@njit(error_model="numpy")
def _sums_of_events(
    second: NDArray[np.float64],
    wrong: NDArray[np.bool_],
    truth: NDArray[np.int64],  # noqa: ARG001  # there is one other class
    shares: NDArray[np.float64],
    beta: float,
    gamma: float,
    brier: bool,
) -> NDArray[np.float64]:
    sums = np.zeros(6)
    product, share = 1.0, 0.0  # rows of one share take one logarithm together
    for i in range(len(second)):
        s = second[i] * beta
        odds = math.exp(s)
        total = math.log1p(odds)
        hit = 1 / (1 + odds)
        miss = odds * hit
        ratio = total / odds if odds > 0 else 1.0
        opposite = (total - s) * odds
        near = _of_outcome(s, total, hit, miss, ratio, gamma)
        far = _of_outcome(-s, total - s, miss, hit, opposite, gamma)
        log_odds = math.log((1 + gamma * opposite) / (1 + gamma * ratio)) - (1 + gamma) * s
        by_s, by_s_twice = near[0] + far[0], near[1] - far[1]
        by_log_t, by_gamma = -s * by_s, near[2] - far[2]  # ds / d log T = -s
        loss, above, slope, bend = _loss_of_event(log_odds, wrong[i], brier)
        if shares[i] != share or product > _LARGE:
            sums[0] += share * math.log(product)
            product, share = 1.0, shares[i]
        product *= above
        sums[0] += shares[i] * loss
        sums[1] += shares[i] * slope * by_log_t
        sums[2] += shares[i] * slope * by_gamma
        sums[3] += shares[i] * (bend * by_log_t * by_log_t + slope * (by_s_twice * s * s + by_s * s))
        sums[4] += shares[i] * (bend * by_log_t * by_gamma - slope * s * (near[3] + far[3]))
        sums[5] += shares[i] * (bend * by_gamma * by_gamma + slope * (near[4] - far[4]))
    sums[0] += share * math.log(product)
    return sums


@njit(inner=True, error_model="numpy")
def _loss_of_event(log_odds: float, wrong: bool, brier: bool) -> tuple[float, float, float, float]:
    """Loss less the logarithm of a factor, that factor, and the loss's derivatives by the log-odds.

    The log-odds are those of the more likely outcome.
    """
    small = math.exp(-abs(log_odds))
    above = 1 + small
    hit = 1 / above
    miss = small * hit
    rest = (small - (above - 1)) * hit  # of log(1 + small) after the logarithm of the rounded sum
    if log_odds < 0:  # by rounding alone
        hit, miss = miss, hit
    spread = hit * miss
    if brier:
        off = hit if wrong else miss  # how far the probability is off
        sign = 1 if wrong else -1
        return off * off, 1.0, 2 * sign * off * spread, 2 * spread * (spread + sign * off * (miss - hit))
    loss = rest + max(-log_odds, 0.0) + (log_odds if wrong else 0.0)
    return loss, above, hit if wrong else -miss, spread


@njit(inner=True)
def _less(one: _Six, other: _Six) -> _Six:
    return (
        one[0] - other[0],
        one[1] - other[1],
        one[2] - other[2],
        one[3] - other[3],
        one[4] - other[4],
        one[5] - other[5],
    )


@njit(inner=True)
def _prob(prob: float, own: _Six, of_all: _Six) -> _Six:
    """A probability and its derivatives, from those of its logit v and of log sum exp(v)."""
    by_t, by_gamma = own[1] - of_all[1], own[2] - of_all[2]
    return (
        prob,
        prob * by_t,
        prob * by_gamma,
        prob * (by_t * by_t + own[3] - of_all[3]),
        prob * (by_t * by_gamma + own[4] - of_all[4]),
        prob * (by_gamma * by_gamma + own[5] - of_all[5]),
    )


@njit(inner=True)
def _add_square(prob: _Six, share: float, sums: NDArray[np.float64]) -> None:
    sums[0] += share * prob[0] * prob[0]
    sums[1] += 2 * share * prob[0] * prob[1]
    sums[2] += 2 * share * prob[0] * prob[2]
    sums[3] += 2 * share * (prob[1] * prob[1] + prob[0] * prob[3])
    sums[4] += 2 * share * (prob[1] * prob[2] + prob[0] * prob[4])
    sums[5] += 2 * share * (prob[2] * prob[2] + prob[0] * prob[5])


@njit(inner=True, error_model="numpy", fastmath={"contract"})
def _set_powers(
    ratios: NDArray[np.float64],
    scale: float,
    gamma: float,
    log_miss: NDArray[np.float64],
    power: NDArray[np.float64],
) -> None:
    for k in range(len(ratios)):
        q = ratios[k] * scale
        series = 1 / 6 + q * (1 / 7 + q * (1 / 8 + q / 9))
        minus_log = q * (1 + q * (1 / 2 + q * (1 / 3 + q * (1 / 4 + q * (1 / 5 + q * series)))))
        x = gamma * minus_log
        series = 1 / 720 + x * (1 / 5040 + x * (1 / 40320 + x * (1 / 362880 + x / 3628800)))
        power[k] = 1 + x * (1 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * series)))))
        log_miss[k] = -minus_log
    most = min(_SMALL, _SMALL_POWER / max(abs(gamma), 1.0))
    for k in range(len(ratios)):
        q = ratios[k] * scale
        if q > most:
            log_miss[k] = math.log1p(-q)
            power[k] = math.exp(-gamma * log_miss[k])


@njit(inner=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _weighted(
    below: NDArray[np.float64],
    ratios: NDArray[np.float64],
    log_miss: NDArray[np.float64],
    power: NDArray[np.float64],
    beta: float,
    base: float,
    gamma: float,
    centre: float,
    variance: float,
    top: _Six,
) -> _Six:
    """Sums over the other classes of exp(v), and of its first and second derivatives.

    Derivatives of v are relative to the top class.
    """
    total, by_t, by_gamma, bend_t, mixed, bend_gamma = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    scale = math.exp(base)
    for k in range(len(ratios)):
        log_q = below[k] * beta + base
        ratio, slope, slope_gamma, bend, bend_mixed, bend_twice = _other(
            log_q, ratios[k] * scale, log_miss[k], gamma, centre, variance
        )
        weight = power[k] * ratios[k] / (1 + gamma * ratio)
        slope, slope_gamma = slope - top[1], slope_gamma - top[2]
        bend, bend_mixed, bend_twice = bend - top[3], bend_mixed - top[4], bend_twice - top[5]
        total += weight
        by_t += weight * slope
        by_gamma += weight * slope_gamma
        bend_t += weight * (bend + slope * slope)
        mixed += weight * (bend_mixed + slope * slope_gamma)
        bend_gamma += weight * (bend_twice + slope_gamma * slope_gamma)
    return total, by_t, by_gamma, bend_t, mixed, bend_gamma


@njit(inner=True, inline="always", error_model="numpy")
def _other(log_q: float, q: float, log_miss: float, gamma: float, centre: float, variance: float) -> _Six:
    """Ratio R of one other class, and v's derivatives by log T and gamma, up to second order."""
    per_miss = 1 / (1 - q)
    ratio = -log_q * q * per_miss
    per_damped = 1 / (1 + gamma * ratio)
    damped, odds = ratio * per_damped, q * per_miss
    ratio_slope = (ratio - q) * per_miss  # dR / d log q
    ratio_bend = (ratio_slope * (1 + q) - q) * per_miss
    ratio_slope *= per_damped
    slope = 1 + gamma * (odds - ratio_slope)
    bend = odds * per_miss - ratio_bend * per_damped + gamma * ratio_slope * ratio_slope
    mixed = odds - ratio_slope * per_damped
    change = centre - log_q  # d log q / d log T
    return (
        ratio,
        slope * change,
        -log_miss - damped,
        (gamma * bend * change - slope) * change - slope * variance,
        mixed * change,
        damped * damped,
    )


@njit(inner=True)
def _top(log_odds: float, odds: float, log_total: float, gamma: float, mean: float, square: float) -> _Six:
    prob = 1 / (1 + odds)
    ratio = log_total / odds if odds > 0 else 1.0
    value, slope, bend, by_gamma, mixed, bend_gamma = _outcome(
        log_odds, log_total, prob, odds * prob, ratio, gamma
    )
    bend_t = bend * mean**2 - slope * (mean**2 - square - mean)
    return value, -slope * mean, by_gamma, bend_t, -mixed * mean, bend_gamma


@njit(inner=True)
def _outcome(s: float, total: float, prob: float, miss: float, ratio: float, gamma: float) -> _Six:
    """h, and its derivatives by s, twice by s, by gamma, mixed, twice by gamma."""
    value = -total - gamma * (s - total) - math.log(1 + gamma * ratio)
    return value, *_of_outcome(s, total, prob, miss, ratio, gamma)


@njit(inner=True, error_model="numpy")
def _of_outcome(
    s: float, total: float, prob: float, miss: float, ratio: float, gamma: float
) -> tuple[float, float, float, float, float]:
    per_damped = 1 / (1 + gamma * ratio)
    ratio_slope = prob - ratio
    ratio_bend = -miss * prob - ratio_slope
    damped, slope = ratio * per_damped, ratio_slope * per_damped
    return (
        -miss - gamma * (prob + slope),
        (gamma - 1) * miss * prob - gamma * (ratio_bend * per_damped - gamma * slope * slope),
        total - s - damped,
        -prob - slope * per_damped,
        damped * damped,
    )
