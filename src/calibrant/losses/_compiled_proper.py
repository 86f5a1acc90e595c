"""Properized focal loss on a CPU, with its gradient, in compiled passes over rows; imports numba."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch

from calibrant._math.jit import njit
from calibrant.losses._closed_form import Closed
from calibrant.losses._compiled import Doubles, Floats, Integers, loss_and_pull, sums
from calibrant.losses._rows import Rows

_LOWEST, _DEGREE = -45.0, 4  # of what is in the table, and of its polynomials
_HIGHEST = 0.6  # probability in the table; two classes cannot both have more than a half
_STEPS = 50  # tests needed at most 5


def proper_focal(rows: Rows, gamma: float) -> Closed:
    cells = 8 if rows.logits.dtype == torch.float32 else 64  # per unit of the logits
    settings = _inverse_table(gamma, cells), float(cells), float(gamma)
    return lambda logits: loss_and_pull(rows, logits, _proper_rows, settings)


@lru_cache(maxsize=16)
def _inverse_table(gamma: float, cells_per_unit: int) -> Doubles:
    r"""Table of the focal map's inverse: q and dq/de by e, where :math:`\log q - \log g(q) = \log e`.

    Polynomials of :math:`\log e` for q / e and for dq / de, ``(cells, 2, 5)``, from -45 on: accurate to 1e-9
    with 8 cells, to 1e-14 with 64. Below -45, q is e.
    """

    def value(log_prob: Doubles) -> tuple[Doubles, Doubles]:
        prob = np.exp(log_prob)
        miss = 1 - prob
        ratio = -prob * log_prob / miss
        slope = 1 + gamma * (2 * prob - ratio + gamma * prob * ratio) / (1 + gamma * ratio) / miss
        return log_prob - gamma * np.log1p(-prob) - np.log1p(gamma * ratio), slope

    cells = math.ceil((value(np.array(math.log(_HIGHEST)))[0] - _LOWEST) * cells_per_unit)
    places = 0.5 - 0.5 * np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    aim = _LOWEST + (np.arange(cells)[:, None] + places) / cells_per_unit
    found = np.minimum(aim, math.log(_HIGHEST))
    for _ in range(12):
        reached, slope = value(found)
        found = np.minimum(found - (reached - aim) / slope, -0.05)
    shares = np.exp(found - aim)
    targets = np.stack([shares, shares / value(found)[1]], 1)[..., None]
    return np.linalg.solve(np.vander(places, increasing=True), targets)[..., 0].astype(np.float64)


@njit(inner=True)
def _polynomial(c: Doubles, x: float) -> float:
    return (((c[4] * x + c[3]) * x + c[2]) * x + c[1]) * x + c[0]


@njit(inner=True)
def _cell(log_odds: float, table: Doubles, cells_per_unit: float) -> tuple[int, float]:
    place = (log_odds - _LOWEST) * cells_per_unit
    place = place if place > 0 else 0.0
    cell = min(int(place), len(table) - 1)
    return cell, min(place - cell, 1.0)


@njit(inner=True)
def _inverse(log_odds: float, table: Doubles, cells_per_unit: float) -> tuple[float, float]:
    cell, place = _cell(log_odds, table, cells_per_unit)
    return _polynomial(table[cell, 0], place), _polynomial(table[cell, 1], place)


@njit(inner=True, fastmath={"reassoc", "nsz", "contract"})
def _sums_of_inverse(
    row: Floats, odds: Floats, shift: float, table: Doubles, cells_per_unit: float
) -> tuple[float, float]:
    """Sums of q and of its derivative by log e, up to a factor."""
    total, by_place = 0.0, 0.0
    for k in range(len(row)):
        cell, x = _cell(row[k] + shift, table, cells_per_unit)
        c = table[cell, 0]
        total += odds[k] * _polynomial(c, x)
        by_place += odds[k] * (((4 * c[4] * x + 3 * c[3]) * x + 2 * c[2]) * x + c[1])
    return total, total + by_place * cells_per_unit


@njit(inner=True, fastmath={"reassoc", "nsz", "contract"})
def _set_weights(
    row: Floats, odds: Floats, shift: float, table: Doubles, cells_per_unit: float, scale: float
) -> float:
    """Overwrite the odds with derivatives by log e; return their sum."""
    total = 0.0
    for k in range(len(row)):
        weight = odds[k] * scale * _inverse(row[k] + shift, table, cells_per_unit)[1]
        odds[k] = weight
        total += weight
    return total


@njit(inner=True)
def _see_top(y: float, gamma: float) -> tuple[float, float, float, float]:
    """For the top class, from the others' log-odds y: p, log(1 - p), log(p / g(p)) and its slope by -y."""
    odds = math.exp(y)
    surprise, prob = math.log1p(odds), 1 / (1 + odds)
    ratio = surprise / odds if odds > 1e-8 else 1 - odds / 2
    value = -surprise - gamma * (y - surprise) - math.log1p(gamma * ratio)
    slope = odds * prob + gamma * (2 * prob - ratio + gamma * prob * ratio) / (1 + gamma * ratio)
    return prob, y - surprise, value, slope


@njit(inner=True)
def _see_largest(row: Floats, highest: float) -> tuple[int, float]:
    """Index of the first largest logit, and the largest of the others minus it."""
    top, second = 0, -math.inf
    while row[top] < highest:
        top += 1
    for k in range(len(row)):
        if k != top:
            second = max(second, row[k] - highest)
    return top, second


@njit(inner=True)
def _focal(log_odds: float, gamma: float) -> tuple[float, float]:
    if log_odds < -40:  # the probability and its powers are lost
        return -log_odds, 1.0
    surprise = math.log1p(math.exp(-log_odds))
    log_miss, prob = -log_odds - surprise, math.exp(-surprise)
    power = math.exp(gamma * log_miss)
    return power * surprise, power * (gamma * prob * surprise + math.exp(log_miss))


@njit(error_model="numpy")
def _proper_rows(
    scores: Floats,
    largest: Floats,
    gradient: Floats,
    classes: Integers,
    shares: Doubles,
    values: Doubles,
    table: Doubles,
    cells_per_unit: float,
    gamma: float,
) -> None:
    r"""Values and gradients of properized focal loss, with q the inverse focal map of a row.

    With :math:`v = \log q - \log g(q)`, each class has :math:`v_j = z_j + c`, and c makes the row sum to one:
    Newton's method on the logarithms of the top class's complement and of the others' sum. So

    .. math:: \frac{\partial}{\partial z_j} \log \frac{q_t}{1 - q_t}
              = \frac{1[j = t] - w_j}{(1 - q_t) \, dv_t / d \log q_t}, \qquad w_j \propto \frac{dq_j}{dv_j}
    """
    enough = 1e-3 if scores.itemsize == 4 else 1e-8  # of a step: the next one is its square
    for i in range(len(scores)):
        row, slopes, label, share, highest = scores[i], gradient[i], classes[i], shares[i], float(largest[i])
        if label < 0 or not math.isfinite(highest):
            values[i] = 0.0 if label < 0 else math.nan
            slopes[:] = values[i]
            continue
        top, origin = _see_largest(row, highest)
        if origin == -math.inf:  # no other class remains
            values[i] = 0.0 if label == top else math.inf
            slopes[:] = 0
            continue
        if origin > -20:
            origin = 0.0
        else:  # if the type rounds the smaller ones away
            for k in range(len(row)):
                slopes[k] = math.exp(row[k] - highest - origin)
        slopes[top] = 0
        y = origin + math.log(sums(slopes)[0])
        y = y if y > 0 else y / (1 + gamma)
        for _ in range(_STEPS):
            prob, log_miss, value, slope = _see_top(y, gamma)
            total, by_value = _sums_of_inverse(row, slopes, value - highest, table, cells_per_unit)
            # Relative to the top class's complement.
            scale = math.exp(origin + value - log_miss)
            step = math.log(total * scale) / (prob + by_value / total * slope)
            y += step
            if not abs(step) > enough:
                break
        else:
            raise RuntimeError  # the plain form takes over
        prob, log_miss, value, slope = _see_top(y, gamma)
        scale, of_top = math.exp(origin + value - log_miss), prob / slope
        log_odds, of_label = -y, of_top
        if label != top:
            log_prob = float(row[label]) - highest + value
            found, rise = _inverse(log_prob, table, cells_per_unit)
            of_label = float(slopes[label]) * scale * rise
            log_prob += math.log(found)
            log_odds = log_prob - math.log1p(-math.exp(log_prob))
            slope = (1 - math.exp(log_prob)) * found / rise
        others = _set_weights(row, slopes, value - highest, table, cells_per_unit, scale)
        slopes[top] = of_top
        values[i], pulled = _focal(log_odds, gamma)
        values[i] *= share
        pulled *= share / (slope * (others + of_top))
        for k in range(len(row)):
            slopes[k] *= pulled
        slopes[label] = -pulled * (others if label == top else others - of_label + of_top)
