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
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.jit import njit
from calibrant._math.machine import SMALL, in_threads
from calibrant._math.simplex import LOG_OF_ZERO
from calibrant.losses._closed_form import FEW, Closed, Pull, scaled
from calibrant.losses._rows import Rows

Floats: TypeAlias = NDArray[np.floating]
Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_NOTHING = np.empty(0)
_BLOCK = 1 << 18  # numbers; smaller blocks make threads wait for the interpreter
_TINY = 1e-300  # below it, a probability's logarithm comes from the logits


def row_losses(rows: Rows, form: tuple[Any, ...]) -> Closed:
    return lambda logits: loss_and_pull(rows, logits, _row_losses, form)


def loss_and_pull(
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
def _exponentials(scores: Floats, largest: Floats, odds: Floats) -> None:
    for i in range(len(scores)):
        row, top = scores[i], scores[i, 0]
        for k in range(1, len(row)):
            top = row[k] if row[k] > top or math.isnan(row[k]) else top
        for k in range(len(row)):
            odds[i, k] = math.exp(row[k] - top)
        largest[i] = top


def weighed(rows: Rows) -> tuple[Integers, Doubles, float]:
    """Class of each row, -1 if ignored, and its share of the loss; the sum of the weights."""
    labels, weight = np.ascontiguousarray(rows.labels.numpy()), rows.weight
    per_class = _NOTHING if weight is None else weight.detach().double().contiguous().numpy()
    classes, shares = np.empty_like(labels), np.empty(len(labels))
    mean, num_classes = rows.layout.reduction == "mean", rows.logits.shape[1]
    total = _weigh(labels, per_class, num_classes, rows.ignore_index, mean, classes, shares)
    return classes, shares, total


@njit
def _weigh(
    labels: Integers,
    weight: Doubles,
    num_classes: int,
    ignore_index: int,
    mean: bool,
    classes: Integers,
    shares: Doubles,
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
def sums(numbers: Floats) -> tuple[float, float]:
    total, squares = 0.0, 0.0
    for k in range(len(numbers)):
        number = float(numbers[k])
        total += number
        squares += number * number
    return total, squares


@njit(inner=True, fastmath={"reassoc", "nsz", "nnan"})
def _largest_below(row: Floats, limit: float) -> Any:
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
def _below(row: Floats, limit: float, origin: float) -> tuple[float, float]:
    """Number of unmasked logits below the limit, and their total distance below ``origin``."""
    count, distance, highest, lowest = 0, 0.0, row.dtype.type(limit), row.dtype.type(LOG_OF_ZERO)
    for k in range(len(row)):
        taken = (row[k] < highest) & (row[k] > lowest)
        count += taken
        distance += origin - row[k] if taken else 0.0
    return count, distance


@njit(inner=True)
def _scale(odds: Floats, slope: float, curve: float) -> None:
    steep, flat = odds.dtype.type(curve), odds.dtype.type(slope)
    for k in range(len(odds)):
        odds[k] *= flat + steep * odds[k]


@njit(inner=True)
def _scale_and_take(
    row: Floats, odds: Floats, slope: float, curve: float, amount: float, limit: float, further: float
) -> None:
    """Scale, take the amount from every unmasked logit's slope, and ``further`` if below the limit."""
    kind = row.dtype.type
    steep, flat, taken, more, nothing = kind(curve), kind(slope), kind(amount), kind(further), kind(0)
    highest, lowest = kind(limit), kind(LOG_OF_ZERO)
    for k in range(len(row)):
        part = taken + (more if row[k] < highest else nothing)
        odds[k] = odds[k] * (flat + steep * odds[k]) - (part if row[k] > lowest else nothing)


@njit(inner=True)
def _share_out(row: Floats, slopes: Floats, at: float, amount: float) -> None:
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
    scores: Floats,
    largest: Floats,
    gradient: Floats,
    classes: Integers,
    shares: Doubles,
    values: Doubles,
    gammas: Doubles,
    edges: Doubles,
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
        others, squares = sums(slopes)
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


def softmax(logits: Tensor) -> Tensor:
    if logits.numel() > FEW:
        return torch.softmax(logits.detach(), 1)
    scores = np.ascontiguousarray(logits.detach().numpy())
    probs = np.empty_like(scores)
    _exponentials(scores, np.empty_like(scores[:, 0]), probs)
    _normalise(probs)
    return torch.from_numpy(probs)


@njit
def _normalise(odds: Floats) -> None:
    for i in range(len(odds)):
        _scale(odds[i], 1 / sums(odds[i])[0], 0.0)


@njit
def add_mean_difference(
    probs: Floats, labels: Integers, ignore_index: int, penalty: float, gradient: Floats, difference: Doubles
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
def _dot(left: Floats, right: Doubles) -> float:
    total = 0.0
    for k in range(len(left)):
        total += left[k] * right[k]
    return total


def entropy_and_softmax(rows: Rows, logits: Tensor) -> tuple[Tensor, Floats]:
    """Cross-entropy, and the probabilities; zeros in ignored rows."""
    entropy, pull = loss_and_pull(rows, logits, _entropies, ())
    return entropy, pull(torch.ones(())).numpy()


@njit(error_model="numpy")
def _entropies(
    scores: Floats, largest: Floats, odds: Floats, classes: Integers, shares: Doubles, values: Doubles
) -> None:
    for i in range(len(scores)):
        values[i] = 0.0
        if classes[i] < 0:
            odds[i] = 0
            continue
        total = sums(odds[i])[0]
        values[i] = shares[i] * (math.log(total) + float(largest[i]) - float(scores[i, classes[i]]))
        _scale(odds[i], 1 / total, 0.0)


@njit
def see_tops(
    scores: Floats,
    probs: Floats,
    classes: Integers,
    places: Integers,
    confidences: Floats,
    right: NDArray[np.bool_],
) -> bool:
    """Fill in confidences (0 if ignored) and correctness of the top classes; return True if none are tied."""
    unique = True
    for i in range(len(scores)):
        row, top, ties = scores[i], places[i], 0
        for k in range(len(row)):
            ties += row[k] == row[top]
        confidences[i], right[i] = probs[i, top], top == classes[i]
        unique &= ties < 2 or classes[i] < 0
    return unique


@njit
def set_slopes(
    probs: Floats, classes: Integers, shares: Doubles, places: Integers, by_log_confidence: Floats
) -> None:
    """Overwrite probabilities with gradients; ignored rows may hold NaN, and get zeros."""
    for i in range(len(probs)):
        if classes[i] < 0:
            probs[i] = 0
            continue
        _scale(probs[i], shares[i] - by_log_confidence[i], 0.0)
        probs[i, classes[i]] -= shares[i]
        probs[i, places[i]] += by_log_confidence[i]


@njit(inner=True, error_model="numpy", fastmath={"contract"})
def _log1p(y: float) -> float:
    """Logarithm of 1 + y for y in [0, 1] by the series of 2 artanh, which LLVM makes vectors of."""
    large = y > math.sqrt(2) - 1
    s = (y - 1 if large else y) / (y + 3 if large else y + 2)
    q = s * s
    found = (((q / 19 + 1 / 17) * q + 1 / 15) * q + 1 / 13) * q + 1 / 11
    found = ((((found * q + 1 / 9) * q + 1 / 7) * q + 1 / 5) * q + 1 / 3) * q + 1
    return 2 * s * found + (math.log(2) if large else 0.0)


@njit(fastmath={"contract"})
def log_powers(
    logits: Floats, outcomes: Floats, odds: Floats, rests: Floats, powers: Floats, gamma: float
) -> None:
    r"""Fill in :math:`\log(1 + e^{-|z|})`, and :math:`\gamma \log u` of :func:`entry_losses`."""
    for i in range(len(logits)):
        for k in range(logits.shape[1]):
            t = -float(logits[i, k]) if outcomes[i, k] == 1 else float(logits[i, k])
            rest = _log1p(float(odds[i, k]))
            rests[i, k] = rest
            powers[i, k] = gamma * ((t if t < 0 else 0.0) - rest) if gamma > 0 else 0.0


@njit(error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def entry_losses(
    logits: Floats,
    outcomes: Floats,
    odds: Floats,
    rests: Floats,
    powers: Floats,
    weight: Floats,
    ignored: float,
    gamma: float,
    distance: float,
    of_ones: float,
    of_zeros: float,
    unit: float,
) -> tuple[float, float, float]:
    r"""Overwrite :math:`e^{-|z|}` with derivatives times the unit, and powers of u with values.

    With the log-odds t of the absent outcome, :math:`u = \sigma(t)` and :math:`m = \log(1 + e^t)`,

    .. math:: \ell = u^\gamma m + \lambda u^2, \qquad
              \frac{d\ell}{dt} = u^\gamma (u + \gamma (1 - u) m) + 2 \lambda u^2 (1 - u)

    Returns the sums of the values and of the weights that count, and how many outcomes are neither 0 nor 1.
    """
    total, counted, odd = 0.0, 0.0, 0.0
    for i in range(len(logits)):
        for k in range(logits.shape[1]):
            outcome, small, power = outcomes[i, k], float(odds[i, k]), float(powers[i, k])
            happened, counts = outcome == 1, outcome != ignored
            share = float(weight[k]) if len(weight) else 1.0
            counted += share if counts else 0.0
            odd += 1.0 if (outcome != 0) & (outcome != 1) & counts else 0.0
            share *= of_ones if happened else of_zeros
            t = -float(logits[i, k]) if happened else float(logits[i, k])
            surprise, scale = (t if t > 0 else 0.0) + rests[i, k], 1 / (1 + small)
            miss, hit = (scale, small * scale) if t > 0 else (small * scale, scale)
            squared = distance * miss * miss
            value = share * (power * surprise + squared) if counts else 0.0
            slope = share * unit * (power * (miss + gamma * hit * surprise) + 2 * hit * squared)
            total += value
            powers[i, k], odds[i, k] = value, (-slope if happened else slope) if counts else 0.0
    return total, counted, odd


@njit
def laplacian_sums(points: Doubles, weights: Doubles, bandwidth: float, sums: Doubles) -> None:
    r"""Fill in :math:`\sum_j w_j e^{-|x_i - x_j| / h}` of ascending points in three parts ``(3, rows, N)``.

    These are the sums over points below, equal and above.
    """
    last = len(points) - 1
    for row in range(len(weights)):
        for part, first, step in ((0, 0, 1), (2, last, -1)):
            apart, equal, start = 0.0, 0.0, first
            for n in range(last + 1):
                i = first + step * n
                if points[i] != points[start]:
                    apart = (apart + equal) * math.exp(-abs(points[i] - points[start]) / bandwidth)
                    equal, start = 0.0, i
                equal += weights[row, i]
                sums[part, row, i], sums[1, row, i] = apart, equal
        for i in range(1, last + 1):  # the pass from above left the whole sum at the first of equal points
            if points[i] == points[i - 1]:
                sums[1, row, i] = sums[1, row, i - 1]
