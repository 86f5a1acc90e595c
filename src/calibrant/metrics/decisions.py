"""Net benefit of acting on a predicted probability, by the decision threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_level, check_probs
from calibrant._math.drawing import cluster_codes
from calibrant._math.errors import InputError
from calibrant._math.newton import Matrix
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import Vector, vector

__all__ = ["DecisionCurve", "decision_curve"]

NUM_THRESHOLDS = 99


@dataclass(frozen=True, kw_only=True)
class DecisionCurve:
    """Net benefit at each threshold, with its interval; treating none has net benefit 0 at all of them."""

    thresholds: tuple[float, ...]
    net_benefit: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    treat_all: tuple[float, ...]


@suggesting()
def decision_curve(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    thresholds: Sequence[float] | None = None,
    weights: ArrayLike | None = None,
    clusters: Sequence[object] | NDArray[Any] | None = None,
    level: float = 0.95,
) -> DecisionCurve:
    r"""Net benefit of treating everyone whose probability reaches a threshold.

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}(t)}{N} - \frac{t}{1 - t} \frac{\mathrm{FP}(t)}{N}

    The threshold sets how many unnecessary treatments you accept per necessary one: nine at 0.1.

    Args:
        probs: Probabilities of the event, shape ``(N,)``.
        labels: Outcomes in {0, 1}, shape ``(N,)``.
        thresholds: Between 0 and 1, both excluded; by default 99 up to the largest probability.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        clusters: Cluster of each sample, such as the patient, ``(N,)``, for intervals of whole clusters;
            by default samples are independent.
        level: Level of the intervals, each for its threshold alone.

    Returns:
        ``net_benefit`` in true positives per sample, the ends ``low`` and ``high`` of its normal interval,
        and the net benefit of treating everyone, ``treat_all``; one entry per threshold.

    Raises:
        InputError: If a value is out of range, or the probabilities are not those of one event.

    Note:
        A probability equal to the threshold is treated. O(N log N).

    References:
        Vickers and Elkin, "Decision curve analysis: a novel method for evaluating prediction models", Medical
        Decision Making 26, 2006.

    Example:
        >>> curve = decision_curve([0.1, 0.4, 0.6, 0.8], [0, 0, 1, 1], thresholds=[0.2, 0.5])
        >>> curve.net_benefit, curve.treat_all
        ((0.4375, 0.5), (0.375, 0.0))
    """
    checked = check_probs(probs, labels, weights)
    check_level(level)
    if checked.task != "binary":
        raise InputError("`probs` must have shape (N,) for a decision curve; pass one class: `probs[:, k]`.")
    stated, positive = vector(checked.scores), vector(checked.target) > 0
    mass = np.ones(len(stated)) if checked.weights is None else vector(checked.weights)
    if thresholds is None:
        at = np.linspace(0, min(float(stated.max()), 0.99), NUM_THRESHOLDS + 1)[1:]
    else:
        at = np.asarray(thresholds, dtype=np.float64)
    if at.ndim != 1 or not len(at) or not ((at > 0) & (at < 1)).all():
        raise InputError("`thresholds` must be numbers between 0 and 1, both excluded.")
    ascending, back = np.unique(at, return_inverse=True)
    place = np.searchsorted(ascending, stated, side="right")  # number of thresholds that a sample reaches

    def treated(values: Vector) -> Vector:
        sums = np.bincount(place, values, len(ascending) + 1).astype(np.float64)
        return np.cumsum(sums[::-1])[-2::-1][back]

    hits, alarms = mass * positive, mass * ~positive
    odds, total = at / (1 - at), mass.sum()
    benefit = (treated(hits) - odds * treated(alarms)) / total
    # A cluster moves the mean by its hits, less its alarms by the odds, less its mass by the mean. Squares of
    # such sums grow, from the last threshold down, by each own square and its products with earlier ones.
    codes = None if clusters is None else cluster_codes(clusters, len(mass))
    own_mass, earlier_hits, earlier_alarms, factor = mass, 0.0, 0.0, 1.0
    if codes is not None:
        of_clusters = np.bincount(codes, mass)
        own_mass, factor = of_clusters[codes], len(of_clusters) / (len(of_clusters) - 1)
        earlier_hits, earlier_alarms = _earlier(np.stack([hits, alarms]), codes, place)
    both = treated(hits * earlier_alarms + alarms * earlier_hits)
    spread = treated(hits * (hits + 2 * earlier_hits)) - 2 * odds * both
    spread += odds**2 * treated(alarms * (alarms + 2 * earlier_alarms))
    spread -= 2 * benefit * (treated(hits * own_mass) - odds * treated(alarms * own_mass))
    spread += benefit**2 * float(mass @ own_mass)
    reach = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(factor * np.maximum(spread, 0)) / total
    prevalence = hits.sum() / total
    found = (at, benefit, benefit - reach, benefit + reach, prevalence - odds * (1 - prevalence))
    names = ("thresholds", "net_benefit", "low", "high", "treat_all")
    return DecisionCurve(**{name: tuple(each.tolist()) for name, each in zip(names, found, strict=True)})


def _earlier(values: Matrix, codes: NDArray[np.int64], place: NDArray[np.int64]) -> Matrix:
    """Sums ``(2, N)`` over earlier samples of the same cluster, in order of falling place."""
    order = np.argsort(codes * (place.max() + 1) - place)
    ordered, codes = values[:, order], codes[order]
    sums = np.cumsum(ordered, axis=1) - ordered
    first = np.searchsorted(codes, np.arange(codes[-1] + 1))
    found = np.empty_like(sums)
    found[:, order] = sums - sums[:, first[codes]]
    return found
