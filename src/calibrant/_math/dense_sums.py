"""One pass over positions or rows: sums in cells of confidence and in bins of classes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit
from calibrant._math.table_kernels import width_bin

COUNT, STATED, NLL, BRIER, ENTROPY, INFINITE, NUMBER, SQUARES = range(8)
"""Weighted sums of a cell; ``INFINITE`` counts positions whose true class has the probability zero,
``NUMBER`` all, and ``SQUARES`` are those of the weights."""
CELL_SUMS = 8
AGREEMENT = 5
"""Numbers kept for each class."""
CLASSES, EVENT = range(2)
"""What is judged: the most likely class, or class 1, which may be that an answer is right."""
HALVINGS = 24
"""Halvings of the end cells: confidences crowd near one, where log-odds distinguish them."""


def cell_edges(num_even: int, alone: NDArray[np.float64]) -> NDArray[np.float64]:
    """Edges of even cells; the first and the last are halved repeatedly towards 0 and 1.

    Each value in ``alone`` has its own cell, so every other cell lies on one side of it.

    Example:
        >>> cell_edges(4, np.empty(0))[-3:]
        array([0.99999997, 0.99999999, 1.        ])
        >>> cell_edges(4, np.array([0.5]))[25:28].tolist()
        [0.25, 0.49999999999999994, 0.5]
    """
    even = np.arange(num_even + 1) / num_even
    halves = 0.5 ** np.arange(1, HALVINGS + 1) / num_even
    return np.unique(np.concatenate([even, halves, 1 - halves, alone, np.nextafter(alone, 0.0)]))


@njit
def add_positions(
    scores: NDArray[np.float64],
    labels: NDArray[np.int64],
    logits: bool,
    event: int,
    edges_of_cells: NDArray[np.float64],
    batches: NDArray[np.int64],
    weights: NDArray[np.float64],
    groups: NDArray[np.int64],
    cells: NDArray[np.float64],
    classes: NDArray[np.float64],
    agreement: NDArray[np.float64],
    of_groups: NDArray[np.float64],
    read: NDArray[np.float64],
    events: NDArray[np.float64],
) -> int:
    """Add scores ``(P, C)`` with labels ``(P,)``; returns at which position a score is none, or -1.

    ``batches`` ``(P,)`` give each position's batch among G, and ``groups`` ``(P,)``, which may be empty, its
    group among Q. Positions without weight count only among the numbers of classes and groups.
    ``cells`` ``(G, K, 2, 8)`` are by confidence of the top label and whether it is right. For an ``event``
    they are by the probability of class 1 and whether it occurs. ``classes`` ``(G, C, B, 3)`` hold
    count, probability and occurrences; ``agreement`` ``(C + 3, 5)`` holds how often each class is predicted,
    occurs, varies and is found, and its number of positions. Its last three rows are the hits of labels
    shifted by -1, 0 and 1. ``of_groups`` ``(Q, G, B, 2, 4)`` hold weight, confidence, number and squared
    weights of the top label, or of an ``event`` its probability. ``read`` ``(P, C)`` is filled with
    the probabilities; one row ``(1, C)`` is only working space. ``events`` ``(P, 2)``, which may be empty, is
    filled with probability and outcome of positions with weight, as in the cells.
    """
    num_cells, num_bins, num_classes = len(edges_of_cells) - 1, classes.shape[2], scores.shape[1]
    for p in range(len(labels)):
        label = labels[p]
        probs = read[p if len(read) > 1 else 0]
        if logits:
            top, nll, entropy = _from_logits(scores[p], label, probs)
        else:
            top, nll, entropy = _from_probs(scores[p], label, probs)
        if top < 0:
            return p
        mass = weights[p]
        agreement[label, 4] += 1.0
        if len(groups):
            sure = min(probs[1] if event != CLASSES else probs[top], 1.0)
            right = label if event != CLASSES else int(top == label)
            found = of_groups[groups[p], batches[p], width_bin(sure, num_bins), right]
            found[0] += mass
            found[1] += mass * sure
            found[2] += 1.0
            found[3] += mass * mass
        if mass == 0.0:
            continue
        brier = 0.0
        of_classes = classes[batches[p]]
        for c in range(num_classes):
            happened = 1.0 if c == label else 0.0
            brier += (probs[c] - happened) ** 2
            b = width_bin(probs[c], num_bins)
            of_classes[c, b, 0] += mass
            of_classes[c, b, 1] += mass * probs[c]
            of_classes[c, b, 2] += mass * happened
            agreement[c, 2] += mass * mass * (probs[c] * (1.0 - probs[c]))
        agreement[top, 0] += mass
        agreement[label, 1] += mass
        agreement[label, 3] += mass if top == label else 0.0
        if -1 <= top - label <= 1:
            agreement[num_classes + 1 + top - label, 0] += mass
        stated = min(probs[1] if event != CLASSES else probs[top], 1.0)
        hit = label if event != CLASSES else int(top == label)
        if len(events):
            events[p, 0] = stated
            events[p, 1] = hit
        cell = cells[batches[p], _cell_of(stated, edges_of_cells, num_cells), hit]
        cell[0] += mass
        cell[1] += mass * stated
        cell[2] += mass * nll
        cell[3] += mass * (brier / 2.0 if event != CLASSES else brier)
        cell[4] += mass * entropy
        cell[5] += 1.0 if nll == np.inf else 0.0
        cell[6] += 1.0
        cell[7] += mass * mass
    return -1


@njit(inner=True)
def _from_logits(
    row: NDArray[np.float64], label: int, probs: NDArray[np.float64]
) -> tuple[int, float, float]:
    top = 0
    for c in range(len(row)):
        if not row[c] < np.inf:
            return -1, 0.0, 0.0
        if row[c] > row[top]:
            top = c
    if row[top] == -np.inf:
        return -1, 0.0, 0.0
    total, entropy = 0.0, 0.0
    for c in range(len(row)):
        probs[c] = math.exp(row[c] - row[top])
        total += probs[c]
    log_total = math.log(total) + row[top]
    for c in range(len(row)):
        probs[c] /= total
        if probs[c] > 0.0:
            entropy += probs[c] * (log_total - row[c])
    return top, log_total - row[label], entropy


@njit(inner=True)
def _from_probs(row: NDArray[np.float64], label: int, probs: NDArray[np.float64]) -> tuple[int, float, float]:
    top, entropy, total = 0, 0.0, 0.0
    for c in range(len(row)):
        if not 0.0 <= row[c] <= 1.001:
            return -1, 0.0, 0.0
        probs[c] = row[c]
        total += row[c]
        if row[c] > row[top]:
            top = c
        if row[c] > 0.0:
            entropy -= row[c] * math.log(row[c])
    if abs(total - 1.0) > 0.01:
        return -1, 0.0, 0.0
    return top, -math.log(probs[label]) if probs[label] > 0.0 else np.inf, entropy


@njit(inner=True)
def _cell_of(value: float, edges: NDArray[np.float64], num_cells: int) -> int:
    b = HALVINGS + min(
        int(value * (num_cells - 2 * HALVINGS)), num_cells - 2 * HALVINGS - 1
    )  # or a neighbour
    while b > 0 and value <= edges[b]:
        b -= 1
    while b < num_cells - 1 and value > edges[b + 1]:
        b += 1
    return b
