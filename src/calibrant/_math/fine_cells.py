r"""Cells of probability by halvings: those of one and the same width, and ever finer ones towards 0 and 1.

The distance q of a probability from the nearer end of the scale lies in a halving :math:`(2^{-k-1}, 2^{-k}]`,
and each halving holds :math:`2^b` cells of equal width: the first bits of q, which are read off the float. So
log-odds are told apart as well as the middle of the scale. Beyond :math:`2^{-40}` everything is one cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit

MASS, STATED, HAPPENED = range(3)
"""What a cell sums up, by weight."""
CELL_SUMS = 3
DEEPEST = 40  # halvings: the calibration line clips at 1e-12, which is about the last
_MANTISSA = 52
_LOWEST = 1023 - DEEPEST  # exponent, as a float has it


def num_fine(bits: int) -> int:
    """Cells of the whole scale."""
    return 2 * _one_side(bits)


def bits_for(room: int, most: int) -> int:
    """The most bits, up to so many, for which the cells fit; not below 0.

    Example:
        >>> bits_for(20_000, 12), num_fine(8)
        (7, 19972)
    """
    return max((bits for bits in range(most + 1) if num_fine(bits) <= room), default=0)


def folded(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cells ``(K, 3)`` of an event as those of its more probable outcome: p above a half, else 1 - p."""
    half = len(cells) // 2
    low, high = cells[:half][::-1], cells[half:].copy()
    mass = low[:, MASS]
    high[:, MASS] += mass
    high[:, STATED] += mass - low[:, STATED]
    high[:, HAPPENED] += mass - low[:, HAPPENED]
    return high


@njit
def add_to_cells(
    probs: NDArray[np.float64],
    labels: NDArray[np.int64],
    weights: NDArray[np.float64],
    groups: NDArray[np.int64],
    bits: int,
    cells: NDArray[np.float64],
    of_groups: NDArray[np.float64],
) -> None:
    """Add ``probs`` ``(P, D)``, of whose columns that of the label happens, to ``cells`` ``(D, K, 3)``.

    ``of_groups`` ``(G, D, M, 2)``, which may be empty, hold mass and what happened in the cells of no bits,
    for each of the ``groups`` ``(P,)``.
    """
    num_columns, num_groups = probs.shape[1], len(of_groups)
    last, last_coarse = cells.shape[1] - 1, of_groups.shape[2] - 1
    for p in range(len(labels)):
        mass = weights[p]
        if mass == 0.0:
            continue
        group = groups[p] % num_groups if num_groups else 0
        for d in range(num_columns):
            value = min(probs[p, d], 1.0)
            high = value > 0.5
            nearer = 1.0 - value if high else value
            place = (np.float64(nearer).view(np.int64) >> (_MANTISSA - bits)) - (_LOWEST << bits) + 1
            place = max(place, 0)
            happened = mass if labels[p] == d else 0.0
            cell = cells[d, last - place if high else place]
            cell[0] += mass
            cell[1] += mass * value
            cell[2] += happened
            if num_groups:
                coarse = ((place - 1) >> bits) + 1 if place else 0
                of_group = of_groups[group, d, last_coarse - coarse if high else coarse]
                of_group[0] += mass
                of_group[1] += happened


def _one_side(bits: int) -> int:
    """Up to a half, which is a cell of its own."""
    return ((DEEPEST - 1) << bits) + 2


def coarse_of(bits: int) -> NDArray[np.int64]:
    """The cell of no bits in which each of the cells lies."""
    half = np.arange(_one_side(bits))
    low = np.where(half > 0, ((half - 1) >> bits) + 1, 0)
    return np.concatenate([low, (num_fine(0) - 1 - low)[::-1]])
