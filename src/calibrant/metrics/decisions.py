"""Decisions by predicted probabilities: net benefit by the threshold, and the loss from miscalibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import Binning
from calibrant._math.checks import check_level, check_probs
from calibrant._math.drawing import cluster_codes
from calibrant._math.errors import InputError
from calibrant._math.newton import Matrix
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import Average, Vector, averaged, judged_sums, vector

__all__ = ["DecisionCurve", "calibration_decision_loss", "decision_curve"]

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
    counts = mass > 0
    codes = None if clusters is None else cluster_codes(clusters, len(mass), counts)
    stated, positive, mass = stated[counts], positive[counts], mass[counts]
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


@suggesting()
def calibration_decision_loss(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_bins: int = 15,
    binning: Binning = "width",
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Calibration decision loss (CDL): the most that any decision loses because probabilities are wrong.

    Someone acts on a probability as if it were true, and is paid between 0 and 1 for the action and the
    outcome. CDL is the largest gain in mean pay from replacing each probability by the actual rate, over all
    such decisions. Here bin b stands for the samples in it, of mean probability :math:`q_b`, rate
    :math:`f_b` and share :math:`w_b`.

    .. math::
        R(t) = \sum_b w_b \, |f_b - t| \; \mathbf 1[t \text{ between } q_b \text{ and } f_b] , \qquad
        \mathrm{CDL} = 2 \, \hat R(1/2)

    Two actions whose order changes at the threshold t lose :math:`R(t) / \max(t, 1 - t)` (a V-shaped score).
    Every decision is a mixture of these, and the best mixture within the bounds of pay is the smallest
    concave function :math:`\hat R \ge R`. It is at most twice what the worst of the two-action decisions
    loses.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, of which the top label being right is the event, or outcomes in {0, 1} of
            the shape of ``probs``.
        num_bins: Number of bins.
        binning: ``"width"``, ``"mass"`` or ``"mukhoti"``.
        average: ``"macro"`` for the mean over the labels where samples have several, ``"none"`` for one
            value per label.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``, as a share of the range of pay; shape ``(C,)`` for ``average="none"``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note:
        Between the square of the ECE with ``norm="l2"`` and twice the ECE, over the same bins. Biased upward
        for small ``N``, as they are. O(N) time, and memory for a square of the number of bins.

    References:
        Hu and Wu, "Calibration Error for Decision Making", FOCS 2024. The formula by a concave function is
        ours, by their reduction to V-shaped scores.

    Example:
        >>> import torch
        >>> probs, labels = torch.full((10,), 0.75), torch.tensor([1] * 5 + [0] * 5)
        >>> round(calibration_decision_loss(probs, labels).item(), 6)  # 0.25 / 0.75
        0.333333
    """
    sums = judged_sums(probs, labels, weights, ignore_index, average, num_bins, binning)
    counts, confidences, outcomes = (
        np.atleast_2d(vector(part)) for part in (sums.counts, sums.confidences, sums.outcomes)
    )
    losses = [_worst_decision(*row, sums.total) for row in zip(counts, confidences, outcomes, strict=True)]
    found = torch.tensor(losses, dtype=torch.float64, device=sums.counts.device)
    return averaged(found if sums.counts.ndim > 1 else found[0], average)


def _worst_decision(counts: Vector, confidences: Vector, outcomes: Vector, total: float) -> float:
    filled = counts > 0
    stated, rates = (sums[filled] / counts[filled] for sums in (confidences, outcomes))
    at = np.unique(np.concatenate([[0.0, 0.5, 1.0], stated, rates]).clip(0, 1))  # R is linear between them
    between = (np.minimum(stated, rates) <= at[:, None]) & (at[:, None] <= np.maximum(stated, rates))
    regret = (np.abs(rates - at[:, None]) * between) @ counts[filled] / total
    low, high = at < 0.5, at > 0.5  # the concave function at 1/2 is the highest chord over it
    away, beyond = 0.5 - at[low][:, None], at[high] - 0.5
    chords = (regret[low][:, None] * beyond + regret[high] * away) / (away + beyond)
    return 2 * max(float(chords.max()), float(regret[at == 0.5][0]))
