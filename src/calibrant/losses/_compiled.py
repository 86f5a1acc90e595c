r"""Row-wise losses on a CPU, with their gradients, in compiled passes over rows; imports numba.

The loss of a row, of whose terms each loss has a few, is

.. math:: w\, b^{|\gamma|} (-\log p_t) + 2 \lambda_1 u + \lambda_2 \sum_k (p_k - 1[k = t])^2
          - \sum_k s \log p_k + \sum_k a \max(0, \max_j z_j - z_k - m)

with :math:`u = 1 - p_t`, and :math:`b = u + p_r` (:math:`p_r` is the runner-up's probability in dual focal
loss, else 0), or :math:`1 + p_t` where :math:`\gamma < 0`. Its gradient by another logit than t is that of
the last two terms, which are piecewise linear in the logits but for the sum of the exponentials, plus

.. math:: p_j (f + 2 \lambda_2 p_j) + w \gamma b^{|\gamma| - 1} (-\log p_t) p_r 1[j = r], \quad
          f = w b^{|\gamma|} (1 + \gamma (-\log p_t) (p_t - p_r) / b)
              + 2 \lambda_1 p_t + 2 \lambda_2 \Big(p_t u - \sum_{j \ne t} p_j^2\Big) + s C .

A row of the gradient sums to zero, which gives entry t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.jit import njit
from calibrant._math.simplex import LOG_OF_ZERO
from calibrant._math.threads import SMALL, in_threads
from calibrant.losses._closed_form import FEW, Closed, Pull, scaled
from calibrant.losses._rows import Rows

_NOTHING = np.empty(0)
_BLOCK = 1 << 18  # numbers; smaller blocks make threads wait for the interpreter
_TINY = 1e-300  # below it, a probability's logarithm comes from the logits


def row_losses(rows: Rows, form: tuple[Any, ...]) -> Closed:
    return lambda logits: _loss_and_pull(rows, logits, _row_losses, form)


def proper_focal(rows: Rows, gamma: float) -> Closed:
    cells = 8 if rows.logits.dtype == torch.float32 else 64  # per unit of the logits
    settings = _inverse_table(gamma, cells), float(cells), float(gamma)
    return lambda logits: _loss_and_pull(rows, logits, _proper_rows, settings)


def _loss_and_pull(
    rows: Rows, logits: Tensor, kernel: Callable[..., None], settings: tuple[Any, ...]
) -> tuple[Tensor, Pull]:
    reduction = rows.layout.reduction
    scores = np.ascontiguousarray(logits.detach().numpy())
    num_samples, num_classes = scores.shape
    gradient, values, largest = np.empty_like(scores), np.empty(num_samples), np.empty_like(scores[:, 0])
    result: Any = values
    classes, shares, total = weighed(rows)
    if scores.size <= FEW:
        _exponentials(scores, largest, gradient)
        kernel(scores, largest, gradient, classes, shares, values, *settings)
    else:
        size = max(1, _BLOCK // num_classes)

        def fill(start: int) -> None:
            at = slice(start, start + size)
            with np.errstate(all="ignore"):  # the caller may have set them to raise
                np.maximum.reduce(scores[at], 1, out=largest[at])
                np.subtract(scores[at], largest[at, None], out=gradient[at])
                np.exp(gradient[at], out=gradient[at])
            kernel(scores[at], largest[at], gradient[at], classes[at], shares[at], values[at], *settings)

        threads = torch.get_num_threads() if scores.size >= SMALL else 1
        for _ in in_threads(fill, range(0, num_samples, size), most=threads):
            pass
    if reduction != "none":
        result = np.add.reduce(values) if reduction == "sum" or total > 0 else math.nan
    loss, slopes = torch.from_numpy(np.asarray(result, scores.dtype)), torch.from_numpy(gradient)
    return loss, lambda grad: scaled(slopes, grad.unsqueeze(1) if grad.ndim else grad)


@njit
def _exponentials(
    scores: NDArray[np.floating], largest: NDArray[np.floating], odds: NDArray[np.floating]
) -> None:
    for i in range(len(scores)):
        row, top = scores[i], scores[i, 0]
        for k in range(1, len(row)):
            top = row[k] if row[k] > top or math.isnan(row[k]) else top
        for k in range(len(row)):
            odds[i, k] = math.exp(row[k] - top)
        largest[i] = top


def weighed(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Class of each row, -1 if ignored, and its share of the loss; the sum of the weights."""
    labels, weight = np.ascontiguousarray(rows.labels.numpy()), rows.weight
    per_class = _NOTHING if weight is None else weight.detach().double().contiguous().numpy()
    classes, shares = np.empty_like(labels), np.empty(len(labels))
    mean, num_classes = rows.layout.reduction == "mean", rows.logits.shape[1]
    total = _weigh(labels, per_class, num_classes, rows.ignore_index, mean, classes, shares)
    return classes, shares, total


@njit
def _weigh(
    labels: NDArray[np.int64],
    weight: NDArray[np.float64],
    num_classes: int,
    ignore_index: int,
    mean: bool,
    classes: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> float:
    total = 0.0
    for i in range(len(labels)):
        label = labels[i]
        if label == ignore_index:
            classes[i], shares[i] = -1, 0.0
            continue
        if not 0 <= label < num_classes:
            raise IndexError
        classes[i], shares[i] = label, weight[label] if len(weight) else 1.0
        total += shares[i]
    if mean and total > 0:
        shares /= total
    return total


@njit(inner=True, fastmath={"reassoc", "nsz"})
def _sums(numbers: NDArray[np.floating]) -> tuple[float, float]:
    total, squares = 0.0, 0.0
    for k in range(len(numbers)):
        number = float(numbers[k])
        total += number
        squares += number * number
    return total, squares


@njit(inner=True, fastmath={"reassoc", "nsz", "nnan"})
def _largest_below(row: NDArray[np.floating], limit: float) -> Any:
    highest, nothing = row.dtype.type(limit), row.dtype.type(-np.inf)
    a = b = c = d = nothing  # four maxima that do not wait for each other: LLVM makes no vector of one
    fours = len(row) // 4 * 4
    for k in range(0, fours, 4):
        a = max(a, row[k] if row[k] < highest else nothing)
        b = max(b, row[k + 1] if row[k + 1] < highest else nothing)
        c = max(c, row[k + 2] if row[k + 2] < highest else nothing)
        d = max(d, row[k + 3] if row[k + 3] < highest else nothing)
    for k in range(fours, len(row)):
        a = max(a, row[k] if row[k] < highest else nothing)
    return max(a, b, c, d)


@njit(inner=True, fastmath={"reassoc", "nsz"})
def _below(row: NDArray[np.floating], limit: float, origin: float) -> tuple[float, float]:
    """Number of unmasked logits below the limit, and their total distance below ``origin``."""
    count, distance, highest, lowest = 0, 0.0, row.dtype.type(limit), row.dtype.type(LOG_OF_ZERO)
    for k in range(len(row)):
        taken = (row[k] < highest) & (row[k] > lowest)
        count += taken
        distance += origin - row[k] if taken else 0.0
    return count, distance


@njit(inner=True)
def _scale(odds: NDArray[np.floating], slope: float, curve: float) -> None:
    steep, flat = odds.dtype.type(curve), odds.dtype.type(slope)
    for k in range(len(odds)):
        odds[k] *= flat + steep * odds[k]


@njit(inner=True)
def _scale_and_take(
    row: NDArray[np.floating],
    odds: NDArray[np.floating],
    slope: float,
    curve: float,
    amount: float,
    limit: float,
    further: float,
) -> None:
    """Scale, take the amount from every unmasked logit's slope, and ``further`` if below the limit."""
    kind = row.dtype.type
    steep, flat, taken, more, nothing = kind(curve), kind(slope), kind(amount), kind(further), kind(0)
    highest, lowest = kind(limit), kind(LOG_OF_ZERO)
    for k in range(len(row)):
        part = taken + (more if row[k] < highest else nothing)
        odds[k] = odds[k] * (flat + steep * odds[k]) - (part if row[k] > lowest else nothing)


@njit(inner=True)
def _share_out(row: NDArray[np.floating], slopes: NDArray[np.floating], at: float, amount: float) -> None:
    """Add the amount to the slope of the logit ``at``; equal logits share it."""
    count, same = 0, row.dtype.type(at)
    for k in range(len(row)):
        count += row[k] == same
    left = count
    for k in range(len(row)):
        if row[k] == same:
            slopes[k] += amount / count
            left -= 1
            if left == 0:
                break


@njit(error_model="numpy")
def _row_losses(
    scores: NDArray[np.floating],
    largest: NDArray[np.floating],
    gradient: NDArray[np.floating],
    classes: NDArray[np.int64],
    shares: NDArray[np.float64],
    values: NDArray[np.float64],
    gammas: NDArray[np.float64],
    edges: NDArray[np.float64],
    right: bool,
    focal: float,
    l1: float,
    l2: float,
    dual: bool,
    smoothing: float,
    spread_to_all: bool,
    margin: float,
    penalty: float,
) -> None:
    """Fill in values, and overwrite the exponentials with gradients; the settings are ``_row_loss.Form``."""
    for i in range(len(scores)):
        row, slopes, label, share, top = scores[i], gradient[i], classes[i], shares[i], float(largest[i])
        if label < 0:
            values[i] = 0.0
            slopes[:] = 0
            continue
        gap = float(row[label]) - top
        true = math.exp(gap)
        slopes[label] = 0
        others, squares = _sums(slopes)
        total = others + true
        prob, miss, squares = true / total, others / total, squares / (total * total)
        surprise = math.log1p(others / true) if true > _TINY else math.log(total) - gap
        second, runner_up = 0.0, 0.0
        if dual:
            runner_up = _largest_below(row, row[label])
            second = math.exp(runner_up - top) / total
        at = 0
        while at < len(edges) and (prob > edges[at] or (prob == edges[at] and not right)):
            at += 1
        gamma = gammas[at]
        base = 1 + prob if gamma < 0 else miss + second
        power = base ** abs(gamma)
        # The value is infinite if p_t is zero, and the factors are NaN at a vertex.
        pulled = focal * gamma * surprise * power / base if prob > 0 and base > 0 else 0.0
        value = focal * power * surprise + 2 * l1 * miss + l2 * (miss * miss + squares)
        slope = focal * power + pulled * (prob - second) + 2 * l1 * prob + 2 * l2 * (prob * miss - squares)
        count, part, limit, low, further = 0.0, 0.0, top - margin, 0.0, 0.0
        if smoothing > 0:
            count, gaps = _below(row, math.inf, top)
            part = smoothing / (count if spread_to_all else max(count - 1, 1.0))
            value = (1 - part * count) * surprise + part * (count * math.log(total) + gaps)
        if penalty > 0:
            further = penalty / _below(row, math.inf, top)[0]
            low, price = _below(row, limit, limit)
            value += further * price
        flat, steep = share * slope / total, share * 2 * l2 / (total * total)
        if smoothing > 0 or penalty > 0:
            _scale_and_take(row, slopes, flat, steep, share * part, limit, share * further)
        else:
            _scale(slopes, flat, steep)
        of_label = part * count - slope * miss - 2 * l2 * squares - pulled * second
        slopes[label] += row.dtype.type(share * of_label)
        if second > 0:
            _share_out(row, slopes, runner_up, share * pulled * second)
        if low > 0:
            _share_out(row, slopes, largest[i], share * further * low)
        values[i] = share * value


_LOWEST, _DEGREE = -45.0, 4  # of what is in the table, and of its polynomials
_HIGHEST = 0.6  # probability in the table; two classes cannot both have more than a half
_STEPS = 50  # tests needed at most 5


@lru_cache(maxsize=16)
def _inverse_table(gamma: float, cells_per_unit: int) -> NDArray[np.float64]:
    r"""Table of the focal map's inverse: q and dq/de by e, where :math:`\log q - \log g(q) = \log e`.

    Polynomials of :math:`\log e` for q / e and for dq / de, ``(cells, 2, 5)``, from -45 on: accurate to 1e-9
    with 8 cells, to 1e-14 with 64. Below -45, q is e.
    """

    def value(log_prob: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
def _polynomial(c: NDArray[np.float64], x: float) -> float:
    return (((c[4] * x + c[3]) * x + c[2]) * x + c[1]) * x + c[0]


@njit(inner=True)
def _inverse(log_odds: float, table: NDArray[np.float64], cells_per_unit: float) -> tuple[float, float]:
    place = (log_odds - _LOWEST) * cells_per_unit
    place = place if place > 0 else 0.0
    cell = min(int(place), len(table) - 1)
    place = min(place - cell, 1.0)
    return _polynomial(table[cell, 0], place), _polynomial(table[cell, 1], place)


@njit(inner=True, fastmath={"reassoc", "nsz", "contract"})
def _sums_of_inverse(
    row: NDArray[np.floating],
    odds: NDArray[np.floating],
    shift: float,
    table: NDArray[np.float64],
    cells_per_unit: float,
) -> tuple[float, float]:
    """Sums of q and of its derivative by log e, up to a factor."""
    total, by_value = 0.0, 0.0
    for k in range(len(row)):
        found, slope = _inverse(row[k] + shift, table, cells_per_unit)
        total += odds[k] * found
        by_value += odds[k] * slope
    return total, by_value


@njit(inner=True, fastmath={"reassoc", "nsz", "contract"})
def _set_weights(
    row: NDArray[np.floating],
    odds: NDArray[np.floating],
    shift: float,
    table: NDArray[np.float64],
    cells_per_unit: float,
    scale: float,
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
def _see_largest(row: NDArray[np.floating], highest: float) -> tuple[int, float]:
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
    scores: NDArray[np.floating],
    largest: NDArray[np.floating],
    gradient: NDArray[np.floating],
    classes: NDArray[np.int64],
    shares: NDArray[np.float64],
    values: NDArray[np.float64],
    table: NDArray[np.float64],
    cells_per_unit: float,
    gamma: float,
) -> None:
    r""":func:`_row_losses` of properized focal loss, with q the inverse focal map of a row.

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
        y = origin + math.log(_sums(slopes)[0])
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


def softmax(logits: Tensor) -> Tensor:
    if logits.numel() > FEW:
        return torch.softmax(logits.detach(), 1)
    scores = np.ascontiguousarray(logits.detach().numpy())
    probs = np.empty_like(scores)
    _exponentials(scores, np.empty_like(scores[:, 0]), probs)
    _normalise(probs)
    return torch.from_numpy(probs)


@njit
def _normalise(odds: NDArray[np.floating]) -> None:
    for i in range(len(odds)):
        _scale(odds[i], 1 / _sums(odds[i])[0], 0.0)


@njit
def add_mean_difference(
    probs: NDArray[np.floating],
    labels: NDArray[np.int64],
    ignore_index: int,
    penalty: float,
    gradient: NDArray[np.floating],
    difference: NDArray[np.float64],
) -> float:
    """MDCA's penalty; adds its gradient, and overwrites ``difference`` ``(C,)``, initially zeros."""
    num_samples, num_classes = probs.shape
    count, size = 0, 0.0
    for i in range(num_samples):
        if labels[i] == ignore_index:
            gradient[i] = 0
            continue
        count += 1
        difference[labels[i]] -= 1
        for k in range(num_classes):
            difference[k] += probs[i, k]
    unit = penalty / (num_classes * max(count, 1))
    for k in range(num_classes):
        size += abs(difference[k])
        difference[k] = unit * np.sign(difference[k])  # the derivative by each probability
    for i in range(num_samples):
        if labels[i] != ignore_index:
            mean = _dot(probs[i], difference)
            for k in range(num_classes):
                gradient[i, k] += probs[i, k] * (difference[k] - mean)
    return unit * size if count > 0 else math.nan


@njit(inner=True, fastmath={"reassoc", "nsz"})
def _dot(left: NDArray[np.floating], right: NDArray[np.float64]) -> float:
    total = 0.0
    for k in range(len(left)):
        total += left[k] * right[k]
    return total


@njit
def find_tops(
    scores: NDArray[np.floating],
    probs: NDArray[np.floating],
    classes: NDArray[np.int64],
    places: NDArray[np.int64],
    confidences: NDArray[np.floating],
    right: NDArray[np.bool_],
) -> bool:
    """Fill in top classes, confidences (0 if ignored) and correctness; return True if no tops are tied."""
    unique = True
    for i in range(len(scores)):
        row, top, ties = scores[i], 0, 0
        for k in range(1, len(row)):
            top = k if row[k] > row[top] else top
        for k in range(len(row)):
            ties += row[k] == row[top]
        places[i], right[i] = top, top == classes[i]
        confidences[i] = probs[i, top] if classes[i] >= 0 else 0
        unique &= ties < 2 or classes[i] < 0
    return unique


@njit
def set_slopes(
    probs: NDArray[np.floating],
    classes: NDArray[np.int64],
    shares: NDArray[np.float64],
    places: NDArray[np.int64],
    by_log_confidence: NDArray[np.floating],
) -> None:
    """Overwrite probabilities with gradients; ignored rows may hold NaN, and get zeros."""
    for i in range(len(probs)):
        if classes[i] < 0:
            probs[i] = 0
            continue
        _scale(probs[i], shares[i] - by_log_confidence[i], 0.0)
        probs[i, classes[i]] -= shares[i]
        probs[i, places[i]] += by_log_confidence[i]
