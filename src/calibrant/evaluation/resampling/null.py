"""What a perfectly calibrated model of the same size would show.

The stated probabilities stay as they are; what happens is drawn from them, again and again. A calibration
error computed from finitely many samples is never zero, and these draws say how large it is by chance alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from calibrant._math.binning import mass_boundaries, mass_order
from calibrant.evaluation.resampling.drawn_counts import DrawnCounts, group_starts
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector, width_bins
from calibrant.evaluation.resampling.resamples import SMALL_BLOCK, block_bounds
from calibrant.evaluation.resampling.score_cells import ScoreCells
from calibrant.evaluation.resampling.statistics import Kernel
from calibrant.evaluation.result import NullError

ROUNDING = 1e-12  # an error that is equal but for rounding counts as at least as large


@dataclass(frozen=True)
class NullDraws:
    """Errors ``(R,)`` and what happened in every equal-width bin ``(B, R)`` under calibration."""

    errors: dict[Kernel, Vector]  # over bins of equal width and of equal mass, and the smooth one
    outcomes: Matrix  # weighted sums, not yet divided by the weight of the bin


def draw_null(events: Events, num_bins: int, num_draws: int, seed: tuple[int, ...]) -> NullDraws:
    """Draw every outcome from its stated probability, independently, ``num_draws`` times."""
    from scipy.sparse import vstack

    from calibrant._math.lipschitz_values import lipschitz_values  # compiled

    rng = np.random.Generator(np.random.SFC64(seed))  # the fastest that numpy has
    cells = ScoreCells.of(events.confidences, events.weights)
    gather = cells.matrix if events.weights is None else cells.matrix * events.weights
    matrix: Any = vstack([bin_matrix(events, num_bins), gather], format="csc")
    order, starts = _alike(events, matrix)
    ranked = events.confidences[order]
    counts = DrawnCounts(ranked, starts)
    matrix = matrix[:, order[starts[:-1]]].tocsr()  # of the groups
    expected = matrix @ np.add.reduceat(ranked, starts[:-1])[:, None]
    smooth = np.empty(num_draws)
    sums = np.empty((2 * num_bins, num_draws))
    for start, stop in block_bounds(num_draws, SMALL_BLOCK // (len(starts) - 1)):
        residuals = matrix @ counts.draw(rng, stop - start) - expected
        sums[:, start:stop] = residuals[: 2 * num_bins]
        smooth[start:stop] = lipschitz_values(cells.points, np.ascontiguousarray(residuals[2 * num_bins :].T))
    errors = np.abs(sums)
    total = float(len(order)) if events.weights is None else float(events.weights.sum())
    return NullDraws(
        errors={
            "width l1": errors[:num_bins].sum(axis=0) / total,
            "mass l1": errors[num_bins:].sum(axis=0) / total,
            "smooth": smooth / total,
        },
        outcomes=sums[:num_bins] + expected[:num_bins],
    )


def draw_values(
    events: Events,
    value: Callable[[Vector, Vector, Vector | None, int], float],
    num_bins: int,
    num_draws: int,
    seed: tuple[int, ...],
) -> Vector:
    """Any error ``(R,)`` of confidences, outcomes and weights where outcomes are drawn as they are stated."""
    rng = np.random.default_rng(seed)
    draws = (rng.random(len(events.confidences)) < events.confidences for _ in range(num_draws))
    return np.array(
        [value(events.confidences, drawn.astype(np.float64), events.weights, num_bins) for drawn in draws]
    )


def _alike(events: Events, matrix: Any) -> tuple[Indices, Indices]:
    """An order of the samples, and where in it begin those that the matrix ``(K, N)`` treats alike."""
    order = np.argsort(events.confidences, kind="stable")
    lengths = np.diff(matrix.indptr)[order]
    # A bin of each kind and a cell; ties that bins share have more, those without weight have fewer.
    simple = lengths == 3
    same = simple[1:] & simple[:-1]
    for place in range(3):
        entries = np.minimum(matrix.indptr[:-1][order] + place, matrix.nnz - 1)
        for part in (matrix.indices, matrix.data):
            values = part[entries]
            same &= values[1:] == values[:-1]
    if events.weights is None:
        same |= np.diff(events.confidences[order]) == 0
    return order, group_starts(np.append(True, ~same))


def bin_matrix(events: Events, num_bins: int) -> Any:
    """Sparse ``(2 num_bins, N)``: sums over the bins of equal width, then over those of equal mass.

    The confidences are fixed here, so the bins of equal mass are too; a tie that an end divides is shared
    out.
    """
    from scipy.sparse import csr_array, vstack

    num_samples = len(events.confidences)
    weights = np.ones(num_samples) if events.weights is None else events.weights
    index = width_bins(events.confidences, num_bins)
    width = csr_array((weights, (index, np.arange(num_samples))), shape=(num_bins, num_samples))

    given = None if events.weights is None else torch.from_numpy(events.weights)
    order = mass_order(torch.from_numpy(events.confidences), given)
    boundaries = mass_boundaries(num_samples, num_bins, None if given is None else given[order]).numpy()
    ranked, ranked_weights = events.confidences[order.numpy()], weights[order.numpy()]
    tie = np.cumsum(np.append(0, np.diff(ranked) != 0))  # (N,) of the sorted samples
    num_ties = int(tie[-1]) + 1
    bins = np.repeat(np.arange(num_bins), np.diff(boundaries))
    pieces, piece = np.unique(bins * num_ties + tie, return_inverse=True)  # parts of a tie in one bin
    whole = np.bincount(tie, ranked_weights)[pieces % num_ties]
    shares = np.divide(np.bincount(piece, ranked_weights), whole, out=np.zeros(len(pieces)), where=whole > 0)
    parts = csr_array((shares, (pieces // num_ties, pieces % num_ties)), shape=(num_bins, num_ties))
    mass = parts @ csr_array((ranked_weights, (tie, order.numpy())), shape=(num_ties, num_samples))
    return vstack([width, mass], format="csr")


def null_error(metric: str, observed: float, draws: Vector, level: float) -> NullError:
    """Where the observed error lies among those of calibrated models."""
    at_least = int((draws >= observed - ROUNDING).sum())
    return NullError(
        metric=metric,
        mean=float(draws.mean()),
        upper=float(np.quantile(draws, level)),
        p_value=(1 + at_least) / (1 + len(draws)),
        num_draws=len(draws),
    )
