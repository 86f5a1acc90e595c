"""The compiled inner loops that draw labels from rows of probabilities."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit
from calibrant.evaluation.resampling.kernels import GUIDE, first_above, set_guide


def add_drawn_labels(
    uniform: NDArray[np.float32],
    probs: NDArray[np.float64],
    bins: NDArray[np.int64],
    places: NDArray[np.int64],
    mass: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """Draw the label of each sample from its probabilities ``(N, C)`` by uniform numbers ``(N, r)``.

    The mass of a sample is added to ``sums`` ``(M, r)`` where it is drawn: at the ``places`` ``(C, B)`` of
    its class and of the bin of the probability that the sample states for it.
    """
    ends, guide = np.empty(probs.shape[1]), np.empty(GUIDE, np.int64)
    _add_labels(uniform, probs, bins, places, mass, ends, guide, sums)


@njit
def _add_labels(
    uniform: NDArray[np.float32],
    probs: NDArray[np.float64],
    bins: NDArray[np.int64],
    places: NDArray[np.int64],
    mass: NDArray[np.float64],
    ends: NDArray[np.float64],
    guide: NDArray[np.int64],
    sums: NDArray[np.float64],
) -> None:
    num_samples, num_classes = probs.shape
    for i in range(num_samples):
        total = 0.0
        for k in range(num_classes):
            total += probs[i, k]
            ends[k] = total
        for k in range(num_classes):
            ends[k] /= total
        ends[num_classes - 1] = 2.0  # whatever rounding left of it: no uniform number lies beyond
        set_guide(ends, guide)
        for r in range(uniform.shape[1]):
            k = first_above(uniform[i, r], ends, guide)
            sums[places[k, bins[i, k]], r] += mass[i]


@njit(inner=True)
def _first_beyond(wanted: float, table: NDArray[np.float64]) -> int:
    """The least k whose entry in a long ascending table exceeds a number; the last at the latest."""
    low, high = 0, len(table) - 1
    while low < high:
        middle = (low + high) // 2
        if table[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return low


def add_exceptions(
    place: NDArray[np.int64],
    steps: NDArray[np.float32],
    uniform: NDArray[np.float32],
    probs: NDArray[np.float64],
    bins: NDArray[np.int64],
    places: NDArray[np.int64],
    mass: NDArray[np.float64],
    usual: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """As `add_drawn_labels` where the likeliest class is likely: only draws of another class are drawn.

    From one of those to the next lie as many draws as a geometric number says, of which exponential ``steps``
    make one; ``uniform`` numbers of the same size choose the class. What the likeliest class gets in a draw
    without exceptions is added to ``usual`` ``(M,)``. It begins at ``place``, a sample and a draw, and leaves
    there where it ran out of steps.
    """
    _add_exceptions(place, steps, uniform, probs, bins, places, mass, np.empty(probs.shape[1]), usual, sums)


@njit
def _add_exceptions(
    place: NDArray[np.int64],
    steps: NDArray[np.float32],
    uniform: NDArray[np.float32],
    probs: NDArray[np.float64],
    bins: NDArray[np.int64],
    places: NDArray[np.int64],
    mass: NDArray[np.float64],
    ends: NDArray[np.float64],
    usual: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    num_samples, num_classes = probs.shape
    num_draws = sums.shape[1]
    used = 0
    for i in range(place[0], num_samples):
        top = 0
        for k in range(1, num_classes):
            if probs[i, k] > probs[i, top]:
                top = k
        others = 0.0
        for k in range(num_classes):
            if k != top:
                others += probs[i, k]
            ends[k] = others
        cell = places[top, bins[i, top]]
        r = place[1]
        place[1] = 0
        if used == len(steps):
            place[0] = i
            return
        if r == 0:
            usual[cell] += mass[i]
        if others <= 0.0:
            continue
        rate = math.log1p(others / probs[i, top])  # of the steps: the log of the total over the likeliest
        while True:
            if used == len(steps):
                place[0], place[1] = i, r
                return
            step = steps[used] / rate
            if step >= num_draws - r:
                used += 1
                break
            r += int(step)
            wanted = uniform[used] * others
            used += 1
            k = _first_beyond(wanted, ends)
            sums[cell, r] -= mass[i]
            sums[places[k, bins[i, k]], r] += mass[i]
            r += 1
    place[0] = num_samples
