"""Area under the ROC curve, and the influence of each sample on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.evaluation.resampling.clusters import cluster_totals
from calibrant.evaluation.resampling.events import Indices, Vector


def auroc_influence(
    scores: Vector, positive: NDArray[np.bool_], weights: Vector | None
) -> tuple[float, Vector] | None:
    r"""The area and the influence of each sample on it; ``None`` if one side has no weight.

    With :math:`V_i` the share of the other side that sample :math:`i` is ranked rightly against (ties count
    one half), the area is the mean of :math:`V_i` over the positives, and also over the negatives. The
    influences :math:`\psi_i` are :math:`(V_i - \mathrm{AUROC})` over the share of its side, so that the root
    of :math:`\sum_i w_i^2 \psi_i^2 / (\sum_i w_i)^2` is the standard error. With the factor :math:`m/(m-1)`
    for a side of :math:`m` samples this is DeLong's. The influences of two models on the same samples
    subtract, which gives the standard error of the difference; those of several classes average.

    References:
        DeLong, DeLong and Clarke-Pearson, "Comparing the Areas under Two or More Correlated Receiver
        Operating Characteristic Curves", Biometrics 44, 1988.
    """
    from calibrant.evaluation.resampling.kernels import rank_negatives  # compiled

    mass = np.ones(len(scores)) if weights is None else weights
    high, low = float(mass[positive].sum()), float(mass[~positive].sum())
    if not (high > 0 and low > 0):
        return None
    order = np.flatnonzero(positive)
    order = order[np.argsort(scores[order])]
    ranked, reached = scores[order], np.append(0.0, np.cumsum(mass[order]))
    starts, ends = (np.searchsorted(ranked, ranked, side) for side in ("left", "right"))
    below, right = np.zeros(len(reached)), np.empty(len(scores))
    rank_negatives(scores, positive, mass, ranked, ends, reached, below, right)
    right[order] = np.cumsum(below)[starts] / low
    area = float((mass * right)[positive].sum()) / high
    influence = right - area
    num_positive = int(positive.sum())
    of_positives = (high + low) / high * _small_sample_factor(num_positive)
    of_negatives = (high + low) / low * _small_sample_factor(len(scores) - num_positive)
    return area, influence * np.where(positive, of_positives, of_negatives)


def standard_error(influence: Vector, weights: Vector | None, clusters: Indices | None = None) -> float:
    """The standard error of a statistic from the influences of the samples, summed over clusters if any."""
    if clusters is not None:
        return error_of_totals(influence_totals(influence, weights, clusters))
    mass = np.ones(len(influence)) if weights is None else weights
    return float(np.sqrt(((mass * influence) ** 2).sum()) / mass.sum())


def influence_totals(influence: Vector, weights: Vector | None, clusters: Indices) -> Vector:
    mass = np.ones(len(influence)) if weights is None else weights
    return cluster_totals(mass * influence, clusters) / mass.sum()


def error_of_totals(totals: Vector) -> float:
    return float(np.sqrt(totals @ totals * len(totals) / max(1, len(totals) - 1)))


def _small_sample_factor(count: int) -> float:
    """Root of m / (m - 1): the variance over a side is estimated from that side's own mean."""
    return float(np.sqrt(count / (count - 1))) if count > 1 else 1.0
