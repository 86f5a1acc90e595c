"""Sums over large tables of probabilities, compiled: one pass instead of a dozen."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.arrays import MAY_BE_SHARED, NEAR_EDGE
from calibrant._math.jit import njit
from calibrant._math.newton import Expansion

Vector: TypeAlias = NDArray[np.float64]

_LN2 = [math.log(2) ** k / math.factorial(k) for k in range(13)]  # of 2^x, exact for half a step of x
_C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12 = _LN2[1:]
_BLOCK, _PIECE = 12, 8  # binary logarithms of the number of samples per partial sum, and per pass
_LOG2_E = 1 / math.log(2)


@njit
def read_narrow_rows(
    probs: NDArray[np.floating],
    labels: NDArray[np.int64],
    highest: NDArray[np.float64],
    correct: NDArray[np.bool_],
) -> tuple[float, float, float]:
    """Fill in each row's largest value, and with labels whether its first place is the true class.

    Returns the smallest value, the largest, and the largest deviation of a row's sum from one, NaN if any is.
    """
    num_samples, num_classes = probs.shape
    low, high, furthest = math.inf, -math.inf, 0.0
    for i in range(num_samples):
        row = probs[i]
        top, least, total = row[0], row[0], 0.0
        for k in range(num_classes):
            value = row[k]
            total += value
            top = value if value > top else top
            least = value if value < least else least
        low, high = min(low, least), max(high, top)
        distance = abs(total - 1.0)
        if not distance <= furthest and not math.isnan(furthest):  # NaN goes in and stays
            furthest = distance
        if len(labels) == 0:
            continue
        highest[i] = top
        correct[i] = _is_first(labels[i], row, top, MAY_BE_SHARED)
    return low, high, furthest


@njit
def read_wide_rows(
    probs: NDArray[np.floating],
    bits: NDArray[np.signedinteger],
    labels: NDArray[np.int64],
    highest: NDArray[np.signedinteger],
    correct: NDArray[np.bool_],
    shared: int,
) -> tuple[int, float]:
    """:func:`read_narrow_rows` for many columns, in steps that a processor vectorises.

    ``bits`` are the same numbers read as integers, which have the same order if none has a minus sign; NaN is
    beyond infinity. ``highest`` are such integers, and ``shared`` is ``MAY_BE_SHARED`` as one. Returns the
    smallest integer and the largest deviation of a row's sum from one.
    """
    lowest, furthest = bits[0, 0], 0.0
    for i in range(len(probs)):
        row = bits[i]
        largest = row[0]
        for k in range(len(row)):
            largest = max(largest, row[k])
            lowest = min(lowest, row[k])
        highest[i] = largest
        furthest = max(furthest, abs(_sum(probs[i]) - 1.0))
        if len(labels) > 0:
            correct[i] = _is_first(labels[i], row, largest, shared)
    return lowest, furthest


@njit
def _is_first(label: int, row: NDArray[Any], highest: float, shared: float) -> bool:
    """Return True if the label's entry is the first of the highest, which may tie below ``shared``."""
    if row[label] != highest:
        return False
    if highest < shared:
        for k in range(label):
            if row[k] == highest:
                return False
    return True


@njit(fastmath={"reassoc", "nsz"})
def _sum(row: NDArray[np.floating]) -> float:
    """Sum in the row's own type, in any order: accurate enough to check that it is one."""
    total = row[0]
    for k in range(1, len(row)):
        total += row[k]
    return total


@njit(inline="always")
def width_bin(value: float, num_bins: int) -> int:
    """Bin (i/B, (i+1)/B], the first closed at 0: that of ``binning.width_bin_index``."""
    scaled = value * num_bins
    index = min(max(math.ceil(scaled) - 1, 0), num_bins - 1)
    if abs(scaled - math.floor(scaled + 0.5)) < NEAR_EDGE * num_bins:  # the edge decides, not the product
        while index > 0 and value <= index / num_bins:
            index -= 1
        while index < num_bins - 1 and value > (index + 1) / num_bins:
            index += 1
    return index


@njit
def width_sums(
    probs: NDArray[np.floating],
    labels: NDArray[Any],
    weights: NDArray[np.float64],
    num_bins: int,
) -> NDArray[np.float64]:
    """Weights, weighted probabilities and weighted outcomes ``(3, C, B)`` of every column's bins.

    Bins have equal width. ``labels`` are outcomes ``(N, C)``, or of several columns the classes ``(N, 1)``;
    ``weights`` are ``(N,)``, or of length one if all are equal.
    """
    num_samples, num_columns = probs.shape
    sums = np.zeros((3, num_columns, num_bins))
    alike, classes = len(weights) == 1, labels.shape[1] != num_columns
    weight = weights[0]
    for i in range(num_samples):
        if not alike:
            weight = weights[i]
        for k in range(num_columns):
            value = float(probs[i, k])
            index = width_bin(value, num_bins)
            sums[0, k, index] += weight
            sums[1, k, index] += weight * value
            if not classes:
                sums[2, k, index] += weight * labels[i, k]
        if classes:
            true = int(labels[i, 0])
            sums[2, true, width_bin(float(probs[i, true]), num_bins)] += weight
    return sums


@njit
def sums_of_powers(
    table: NDArray[np.float64], scale: float, room: NDArray[np.float64], sums: NDArray[np.float64]
) -> None:
    """Fill in each row's sums ``(3, N)`` of r = 2^(scale b), r b and r b squared; ``room`` holds a row."""
    num_samples, width = table.shape
    flat, step = table.reshape(-1), len(room) // width
    for start in range(0, num_samples, step):
        stop = min(start + step, num_samples)
        set_powers_of_two(flat[start * width : stop * width], scale, room)
        for i in range(start, stop):
            at = (i - start) * width
            sums[0, i], sums[1, i], sums[2, i] = moments(table[i], room[at : at + width], 1.0, 0.0)


@njit(inner=True, fastmath={"contract"})
def set_powers_of_two(values: NDArray[np.float64], scale: float, powers: NDArray[np.float64]) -> None:
    for k in range(len(values)):
        x = values[k] * scale
        x = x if x > -1023.0 else -1023.0  # whose power comes out as zero
        whole = np.floor(x + 0.5)
        x -= whole
        high = _C6 + x * (_C7 + x * (_C8 + x * (_C9 + x * (_C10 + x * (_C11 + x * _C12)))))
        power = 1.0 + x * (_C1 + x * (_C2 + x * (_C3 + x * (_C4 + x * (_C5 + x * high)))))
        powers[k] = power * np.int64((np.int64(np.int32(whole)) + 1023) << 52).view(np.float64)


@njit(inner=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def moments(
    below: NDArray[np.float64], ratios: NDArray[np.float64], beta: float, largest: float
) -> tuple[float, float, float]:
    """Sums of ratios, and of these times ``below beta + largest`` and its square."""
    total, first, square = 0.0, 0.0, 0.0
    for k in range(len(ratios)):
        gap = below[k] * beta + largest
        total += ratios[k]
        first += ratios[k] * gap
        square += ratios[k] * gap * gap
    return total, first, square


@njit
def pool_adjacent(
    scores: NDArray[np.float64],
    outcomes: NDArray[np.float64],
    weights: NDArray[np.float64],
    steps: NDArray[np.float64],
    num_steps: NDArray[np.int64],
) -> None:
    """Isotonic regression of each row of outcomes ``(K, N)`` on ascending scores ``(K, N)``.

    Fills ``steps`` ``(4, K, N)`` with the lowest and the highest score, the value and the weight of each
    step. Equal scores enter as one; samples of weight zero are ignored. Comparing means by cross-multiplied
    sums is exact for counts; equal means are pooled.
    """
    num_rows, num_samples = scores.shape
    for row in range(num_rows):
        lower, upper, total, weight = steps[0, row], steps[1, row], steps[2, row], steps[3, row]
        top, i = -1, 0
        while i < num_samples:
            x, mass, hits = scores[row, i], 0.0, 0.0
            while i < num_samples and scores[row, i] == x:
                mass += weights[row, i]
                hits += weights[row, i] * outcomes[row, i]
                i += 1
            if mass == 0.0:
                continue
            start = x
            while top >= 0 and total[top] * mass >= hits * weight[top]:
                start = lower[top]
                mass += weight[top]
                hits += total[top]
                top -= 1
            top += 1
            lower[top], upper[top], total[top], weight[top] = start, x, hits, mass
        num_steps[row] = top + 1
        for step in range(top + 1):
            total[step] /= weight[step]


@njit
def walk_minorant(
    x: NDArray[np.float64], y: NDArray[np.float64], corners: NDArray[np.int64], found: NDArray[np.float64]
) -> None:
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


def logistic_expansion(
    design: NDArray[np.float64],
    outcomes: NDArray[np.float64],
    shares: NDArray[np.float64],
    place: NDArray[np.float64],
) -> Expansion:
    """Mean log loss of the log-odds ``design @ place``, with its derivatives by ``place`` ``(F,)``."""
    width = len(place)
    sums = np.zeros(((len(design) >> _BLOCK) + 1, 2 + width, width))
    _add_logistic(design, outcomes, shares, place, sums, np.empty(1 << _PIECE), np.empty(1 << _PIECE))
    total = sums.sum(axis=0)
    return Expansion(float(total[0, 0]), total[1], total[2:])


@njit(fastmath={"contract"})
def _add_logistic(
    design: NDArray[np.float64],
    outcomes: NDArray[np.float64],
    shares: NDArray[np.float64],
    place: NDArray[np.float64],
    sums: NDArray[np.float64],
    log_odds: NDArray[np.float64],
    room: NDArray[np.float64],
) -> None:
    num_samples, width = design.shape
    for start in range(0, num_samples, len(room)):
        n = min(len(room), num_samples - start)
        for i in range(n):
            log_odds[i] = 0.0
            for k in range(width):
                log_odds[i] += design[start + i, k] * place[k]
            room[i] = -abs(log_odds[i])
        set_powers_of_two(room[:n], _LOG2_E, room)
        # Rows of one share take one logarithm together: of the product of 1 + exp(-|log-odds|).
        block, loss, product, share = sums[start >> _BLOCK], 0.0, 1.0, shares[start]
        for i in range(n):
            small, odds, outcome = room[i], log_odds[i], outcomes[start + i]
            if shares[start + i] != share:
                loss += share * math.log(product)
                product, share = 1.0, shares[start + i]
            above = 1.0 + small
            likely = 1.0 / above
            product *= above
            loss += share * (max(odds, 0.0) + (small - (above - 1.0)) * likely - outcome * odds)
            log_odds[i] = share * ((likely if odds >= 0.0 else small * likely) - outcome)
            room[i] = share * small * likely * likely
        block[0, 0] += loss + share * math.log(product)
        for k in range(width):
            total = 0.0
            for i in range(n):
                total += log_odds[i] * design[start + i, k]
            block[1, k] += total
            for m in range(k + 1):
                total = 0.0
                for i in range(n):
                    total += room[i] * design[start + i, k] * design[start + i, m]
                block[2 + k, m] += total
                block[2 + m, k] = block[2 + k, m]


@njit
def interpolate(
    scores: NDArray[np.float64],
    order: NDArray[np.int64],
    places: NDArray[np.float64],
    values: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    """Fill ``found`` ``(K, N)`` with the values, linear between places ``(K, M)``, at ascending scores.

    Row k of the scores is that of the samples ``order[k]``. Values are constant beyond the outermost places;
    the second of two at one place counts. One row of places serves all rows of scores.
    """
    num_rows, num_samples = scores.shape
    last = places.shape[1] - 1
    for k in range(num_rows):
        row, below = k % len(places), 0
        for i in range(num_samples):
            x = scores[k, i]
            while below <= last and places[row, below] <= x:
                below += 1
            upper = min(max(below, 1), last)
            left, right, low = places[row, upper - 1], places[row, upper], values[row, upper - 1]
            part = (x - left) / (right - left if right > left else 1.0)
            part = 0.0 if part < 0 else 1.0 if part > 1 else part
            found[k, order[k, i]] = low + part * (values[row, upper] - low)
