r"""Cells of probability by halvings: of constant width, or ever finer towards 0 and 1.

The distance q of a probability from the nearer end of the scale lies in a halving :math:`(2^{-k-1}, 2^{-k}]`,
and each halving holds :math:`2^b` cells of equal width. They are the first bits of q, read off the float. So
log-odds have the same resolution as the middle of the scale. Beyond :math:`2^{-41}` everything is one cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit

MASS, STATED, HAPPENED = range(3)
"""Weighted sums of a cell."""
CELL_SUMS = 3
DEEPEST = 41  # halvings: the calibration line clips at 1e-12, about the last cell
_MANTISSA = 52
_LOWEST = 1023 - DEEPEST  # exponent, as a float has it; even

NUM_COARSE = 2 * (DEEPEST // 2 + 2)
"""Cells of two halvings, of the whole scale."""


def num_fine(bits: int) -> int:
    return 2 * _one_side(bits)


def bits_for(room: int, most: int) -> int:
    """Most bits, up to ``most``, whose cells fit into ``room``; at least 0."""
    return max((bits for bits in range(most + 1) if num_fine(bits) <= room), default=0)


def folded(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cells ``(K, 3)`` of an event as cells of its more probable outcome: p above a half, else 1 - p."""
    half = len(cells) // 2
    low, high = cells[:half][::-1], cells[half:].copy()
    mass = low[:, MASS]
    high[:, MASS] += mass
    high[:, STATED] += mass - low[:, STATED]
    high[:, HAPPENED] += mass - low[:, HAPPENED]
    return high


@njit
def add_to_cells(
    stated: NDArray[np.float64],
    happened: NDArray[np.int64],
    weights: NDArray[np.float64],
    bits: int,
    cells: NDArray[np.float64],
) -> None:
    for p in range(len(stated)):
        mass = weights[p]
        if mass > 0.0:
            value = min(stated[p], 1.0)
            cell = cells[_place(value, _MANTISSA - bits, _LOWEST << bits, len(cells))]
            cell[0] += mass
            cell[1] += mass * value
            cell[2] += mass * happened[p]


@njit
def rank_in_cells(
    probs: NDArray[np.float64],
    labels: NDArray[np.int64],
    weights: NDArray[np.float64],
    batches: NDArray[np.int64],
    every: int,
    bits: int,
    cells: NDArray[np.float64],
    of_groups: NDArray[np.float64],
) -> None:
    """Add ``probs`` ``(P, D)``, whose column of the label occurs, to ``cells`` ``(2, D, K)``.

    They hold mass and outcomes. ``of_groups`` ``(2, G, D, M)`` hold them in cells of two halvings, for one in
    ``every`` of the ``batches`` ``(P,)``; G may be 0.
    """
    num_columns, num_cells = cells.shape[1:]
    num_groups, num_coarse = of_groups.shape[1], of_groups.shape[3]
    drop, lowest = _MANTISSA - bits, _LOWEST << bits
    for p in range(len(labels)):
        mass, label = weights[p], labels[p]
        if mass == 0.0:
            continue
        for d in range(num_columns):
            cells[0, d, _place(min(probs[p, d], 1.0), drop, lowest, num_cells)] += mass
        if label < num_columns:
            cells[1, label, _place(min(probs[p, label], 1.0), drop, lowest, num_cells)] += mass
        if num_groups and batches[p] % every == 0:
            found = of_groups[:, batches[p] // every % num_groups]
            for d in range(num_columns):
                found[0, d, _place(min(probs[p, d], 1.0), _MANTISSA + 1, _LOWEST >> 1, num_coarse)] += mass
            if label < num_columns:
                place = _place(min(probs[p, label], 1.0), _MANTISSA + 1, _LOWEST >> 1, num_coarse)
                found[1, label, place] += mass


@njit(inner=True)
def _place(value: float, drop: int, lowest: int, num_cells: int) -> int:
    """Cell of a probability: the nearer distance to 0 or 1, as a float without its ``drop`` lowest bits."""
    high = value > 0.5
    nearer = 1.0 - value if high else value
    place = max((int(np.float64(nearer).view(np.int64)) >> drop) - lowest + 1, 0)
    return num_cells - 1 - place if high else place


def _one_side(bits: int) -> int:
    """Number of cells up to one half, which has its own cell."""
    return ((DEEPEST - 1) << bits) + 2


def coarse_of(bits: int) -> NDArray[np.int64]:
    half = np.arange(_one_side(bits))
    low = np.where(half > 0, ((half - 1) >> (bits + 1)) + 1, 0)
    return np.concatenate([low, (NUM_COARSE - 1 - low)[::-1]])
