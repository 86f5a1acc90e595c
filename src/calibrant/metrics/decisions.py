"""Net benefit of acting on a predicted probability, by the threshold from which one acts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_level, check_probs
from calibrant._math.errors import InputError
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import vector

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
        level: Level of the intervals, each for its threshold alone.

    Returns:
        ``net_benefit`` in true positives per sample, the ends ``low`` and ``high`` of its normal interval,
        and the net benefit of treating everyone, ``treat_all``; one entry per threshold.

    Raises:
        InputError: If a value is out of range, or the probabilities are not those of one event.

    Note:
        A probability equal to the threshold is treated. Samples count as independent. O(N log N).

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
    order = np.argsort(stated)
    from_here = np.searchsorted(stated[order], at)  # the first sample that is treated

    def treated(values: np.ndarray) -> np.ndarray:
        below = np.append(0.0, np.cumsum(values[order]))
        return below[-1] - below[from_here]

    odds, total = at / (1 - at), mass.sum()
    benefit = (treated(mass * positive) - odds * treated(mass * ~positive)) / total
    squares, hits, alarms = mass @ mass, treated(mass**2 * positive), treated(mass**2 * ~positive)
    # Each sample is worth 1, -odds or 0; the squared distances from the mean, by the squared weights.
    spread = hits * (1 - benefit) ** 2 + alarms * (odds + benefit) ** 2
    spread += (squares - hits - alarms) * benefit**2
    reach = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(np.maximum(spread, 0)) / total
    prevalence = mass[positive].sum() / total
    found = (at, benefit, benefit - reach, benefit + reach, prevalence - odds * (1 - prevalence))
    names = ("thresholds", "net_benefit", "low", "high", "treat_all")
    return DecisionCurve(**{name: tuple(each.tolist()) for name, each in zip(names, found, strict=True)})
