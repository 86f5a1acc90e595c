r"""Most bins with ascending mean outcomes.

The sorted samples are known by their cumulative weights and outcomes, so that the mean of a bin is a
difference of two numbers, and a trial of b bins takes b steps at most. A fall of the mean can only lie
between the first outcome above the least and the last one below the largest. Elsewhere all outcomes are
equal, and the bins are skipped. That keeps well separated samples, which bear very many bins, from taking
O(N²).
"""

from __future__ import annotations

import numpy as np

from calibrant._math.binning import REACHED
from calibrant._math.jit import njit
from calibrant._math.lipschitz import Vector, merge_ties
from calibrant._math.table_kernels import width_bin

_ROUNDING = 1e-15  # of a cumulative sum, relative, per term


def monotone_mass_bins(scores: Vector, outcomes: Vector, weights: Vector | None = None) -> int:
    """Number of equal-mass bins before the first number at which a mean outcome falls."""
    ranked, masses, sums = _sorted(scores, outcomes, weights)
    _, tied_masses, ties = merge_ties(ranked, masses)
    tied_sums = np.bincount(ties, sums, len(tied_masses))
    means = (tied_sums / tied_masses)[ties]  # equal scores share their mean outcome
    first, last = _mixed(means)
    if first >= last:
        return len(ranked)
    reached = np.concatenate([[0.0], np.cumsum(masses)])
    cumulative = np.concatenate([[0.0], np.cumsum(masses * means)])
    return int(_mass_search(reached, cumulative, first, last, weights is None))


def monotone_width_bins(scores: Vector, outcomes: Vector, weights: Vector | None = None) -> int:
    """:func:`monotone_mass_bins` with bins of equal width; empty ones are skipped."""
    ranked, masses, sums = _sorted(scores, outcomes, weights)
    points, point_masses, ties = merge_ties(ranked, masses)
    point_sums = np.bincount(ties, sums, len(points))
    first, last = _mixed(point_sums / point_masses)
    if first >= last:
        return len(ranked)
    reached = np.concatenate([[0.0], np.cumsum(point_masses)])
    cumulative = np.concatenate([[0.0], np.cumsum(point_sums)])
    return int(_width_search(points, reached, cumulative, len(ranked), first, last))


def _sorted(scores: Vector, outcomes: Vector, weights: Vector | None) -> tuple[Vector, Vector, Vector]:
    """Ascending scores (ties by weight), weights and weighted outcomes; without samples of weight zero."""
    if weights is None:
        order = np.argsort(scores)
        return scores[order], np.ones(len(order)), outcomes[order]
    order = np.lexsort((weights, scores))
    order = order[weights[order] > 0]
    return scores[order], weights[order], (weights * outcomes)[order]


def _mixed(means: Vector) -> tuple[int, int]:
    """First and last place between which outcomes are not ascending (first > last: all ascend)."""
    falls = np.flatnonzero(np.diff(means) < 0)
    if len(falls) == 0:
        return 0, -1
    # Beyond the running extremes of the part that falls, the outcomes are those of a sorted sample.
    lowest = means[falls[0] :].min()
    highest = means[: falls[-1] + 1].max()
    first = int(np.argmax(means > lowest))
    last = len(means) - 1 - int(np.argmax(means[::-1] < highest))
    return first, last


@njit
def _mass_search(reached: Vector, cumulative: Vector, first: int, last: int, counted: bool) -> int:
    n = reached.shape[0] - 1
    total = float(reached[n])
    slack = _ROUNDING * cumulative[n]
    for num_bins in range(2, n + 1):
        low, mean, error = -1, -1.0, -1.0
        # The bin before the one that holds the first mixed sample, to the one after that of the last.
        j = max(0, int(reached[first] / total * num_bins) - 2)
        while j < num_bins:
            high = _end(reached, total, j + 1, num_bins, counted)
            if low < 0:
                low = _end(reached, total, j, num_bins, counted)
            if high > low:
                width = reached[high] - reached[low]
                following = (cumulative[high] - cumulative[low]) / width
                rounding = slack * (high - low) / width
                if error >= 0.0 and following < mean - rounding - error:
                    return num_bins - 1
                mean, error = following, rounding
                if low > last:
                    break
            low = high
            j += 1
    return n


@njit
def _end(reached: Vector, total: float, j: int, num_bins: int, counted: bool) -> int:
    n = reached.shape[0] - 1
    if j <= 0 or j >= num_bins:
        return 0 if j <= 0 else n
    if counted:
        return -(-j * n // num_bins)
    return int(np.searchsorted(reached[1:], j / num_bins * total * REACHED)) + 1


@njit
def _width_search(
    points: Vector, reached: Vector, cumulative: Vector, most: int, first: int, last: int
) -> int:
    n = points.shape[0]
    slack = _ROUNDING * cumulative[n]
    for num_bins in range(2, most + 1):
        mean, error = -1.0, -1.0
        # From the bin of the first mixed point, including points before it in its bin.
        upper = width_bin(points[first], num_bins) / num_bins
        low = int(np.searchsorted(points, upper, side="right")) if upper > 0.0 else 0
        while low <= last:
            edge = (width_bin(points[low], num_bins) + 1) / num_bins
            high = int(np.searchsorted(points, edge, side="right")) if edge < 1.0 else n
            width = reached[high] - reached[low]
            following = (cumulative[high] - cumulative[low]) / width
            rounding = slack * (high - low) / width
            if error >= 0.0 and following < mean - rounding - error:
                return num_bins - 1
            mean, error = following, rounding
            low = high
    return most
