"""Cells of confidence in which sums are kept, and the edges between them."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from calibrant._math.dense_sums import cell_edges
from calibrant.evaluation.quantity import HIGH_CONFIDENCE
from calibrant.evaluation.resampling.events import Indices, Vector

LEAST_CELLS, MOST_CELLS = 256, 1200


def num_even(num_bins: int) -> int:
    """Even cells of confidence that divide both the bins and hundredths, where these are not too many."""
    shared = math.lcm(num_bins, 100)
    return (
        shared
        if LEAST_CELLS <= shared <= MOST_CELLS
        else num_bins * 2 * math.ceil(LEAST_CELLS / num_bins / 2)
    )


@cache
def edges_of_cells(num_bins: int) -> Vector:
    """Edges of these; the edges of bins and the least high confidence have cells to themselves."""
    bins = np.arange(1, num_bins) / num_bins
    sure = round(1 - HIGH_CONFIDENCE, 9), HIGH_CONFIDENCE  # of an event, cells mirror each other
    return cell_edges(num_even(num_bins), np.append(bins, sure))


def num_cells(num_bins: int) -> int:
    """Number of cells."""
    return len(edges_of_cells(num_bins)) - 1


def within_cells(means: Vector, places: Indices, edges: Vector) -> Vector:
    """Means as they are without rounding: above the lower edges of their cells (but for the first's).

    Example:
        >>> within_cells(np.array([0.7999999999999999, 0.8]), np.array([1, 0]), np.array([0, 0.8, 1.0]))
        array([0.8, 0.8])
    """
    lower = np.where(places > 0, np.nextafter(edges[places], 1.0), edges[0])
    return means.clip(lower, edges[places + 1])
