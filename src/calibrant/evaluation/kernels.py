"""The compiled inner loops of the bootstrap."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

ECE, ADAPTIVE, SQUARED, MAXIMUM = 0, 1, 2, 3  # columns of the result


@njit(cache=True, nogil=True)
def cell_sums(
    counts: NDArray[np.uint8], index: NDArray[np.int32], residuals: NDArray[np.float64], num_cells: int
) -> NDArray[np.float64]:
    """Sums ``(r, K)`` over the cells of residuals ``(N,)``, each as often as the resample drew it."""
    sums = np.zeros((counts.shape[0], num_cells))
    for r in range(counts.shape[0]):
        for i in range(counts.shape[1]):
            sums[r, index[i]] += counts[r, i] * residuals[i]
    return sums


@njit(cache=True, nogil=True)
def drawn_sums(
    uniform: NDArray[np.float32],
    probs: NDArray[np.float32],
    starts: NDArray[np.int32],
    rows: NDArray[np.int32],
    shares: NDArray[np.float64],
    num_rows: int,
) -> NDArray[np.float64]:
    """Sums ``(K, r)`` of the shares of each sample that is drawn: where ``uniform`` ``(N, r)`` is below p.

    ``rows`` and ``shares`` are a sparse matrix ``(K, N)``, whose columns begin at ``starts`` ``(N + 1,)``.
    """
    num_samples, num_draws = uniform.shape
    sums = np.zeros((num_rows, num_draws))
    drawn = np.empty(num_draws)
    for i in range(num_samples):
        for r in range(num_draws):
            drawn[r] = 1.0 if uniform[i, r] < probs[i] else 0.0
        for place in range(starts[i], starts[i + 1]):
            row, share = rows[place], shares[place]
            for r in range(num_draws):
                sums[row, r] += share * drawn[r]
    return sums


@njit(cache=True, nogil=True)
def binned_errors(
    counts: NDArray[np.uint8],
    targets: NDArray[np.float64],
    order: NDArray[np.int32],
    last_of_tie: NDArray[np.bool_],
    bins: NDArray[np.int32],
    mass: NDArray[np.float64],
    residuals: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Errors ``(r, 4)`` of each resample; all but the maximum are multiplied by the resample's weight.

    ``counts`` ``(r, N)`` are in the order of the rows. ``last_of_tie``, ``bins`` (of equal width), ``mass``
    and ``residuals`` (mass times outcome minus confidence) ``(N,)`` are in the ``order`` of the confidences,
    ties in that of the mass. ``targets`` ``(r, B - 1)`` are the cumulative masses that the inner bins of
    equal mass must reach; such a bin ends with the first copy of a sample that reaches its target.

    Between ties the cumulative residual R(u) is a straight line in the cumulative mass u, because tied
    samples share their mean; a bin of equal mass from u to v contributes abs(R(v) - R(u)).
    """
    num_resamples, num_samples = counts.shape
    num_inner = targets.shape[1]
    errors = np.zeros((num_resamples, 4))
    ends = np.empty(num_inner)
    for r in range(num_resamples):
        reached, residual = 0.0, 0.0  # cumulative
        tie_mass, tie_residual = 0.0, 0.0  # before the tie
        bin_mass, bin_residual = 0.0, 0.0  # before the bin of equal width
        found, settled, at_last_end = 0, 0, 0.0
        for i in range(num_samples):
            drawn = counts[r, order[i]]
            while found < num_inner and targets[r, found] <= reached + drawn * mass[i]:
                copies = math.ceil((targets[r, found] - reached) / mass[i])
                ends[found] = reached + min(max(copies, 1), drawn) * mass[i]
                found += 1
            reached += drawn * mass[i]
            residual += drawn * residuals[i]
            if last_of_tie[i]:
                while settled < found:
                    share = (ends[settled] - tie_mass) / (reached - tie_mass)
                    at_end = tie_residual + share * (residual - tie_residual)
                    errors[r, ADAPTIVE] += abs(at_end - at_last_end)
                    at_last_end = at_end
                    settled += 1
                tie_mass, tie_residual = reached, residual
            if i + 1 == num_samples or bins[i + 1] != bins[i]:
                if reached > bin_mass:
                    gap = abs(residual - bin_residual)
                    errors[r, ECE] += gap
                    errors[r, SQUARED] += gap * gap / (reached - bin_mass)
                    errors[r, MAXIMUM] = max(errors[r, MAXIMUM], gap / (reached - bin_mass))
                bin_mass, bin_residual = reached, residual
        errors[r, ADAPTIVE] += abs(residual - at_last_end)
    return errors
