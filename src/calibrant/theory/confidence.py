"""Conditions for the focal calibration map to raise or lower the top probability."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_logits
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.simplex import log_softmax
from calibrant.theory.gradients import gradient_threshold, gradient_turning_point

__all__ = ["ConfidenceChange", "ConfidenceThreshold", "confidence_change", "confidence_threshold"]

_ROUNDING = 1e-15


@dataclass(frozen=True, kw_only=True)
class ConfidenceThreshold:
    """Top probabilities above and below which the direction is certain."""

    gamma: float
    above: float
    """The root of g = 1. A top probability from here on is raised (``gamma`` below 0: lowered)."""
    below: float
    """Maximiser of g. A top probability up to it is never raised (``gamma`` below 0: never lowered)."""


@dataclass(frozen=True, kw_only=True)
class ConfidenceChange:
    """Effect of the focal calibration map on the top probabilities of some samples."""

    raised: float
    """Share of the samples whose top probability rises."""
    lowered: float
    """Share of those where it falls; the rest stay, to rounding."""
    mean_change: float
    """Mean of the change."""
    largest_fall: float
    """The most that a top probability falls, not negative."""
    num_samples: int


def confidence_threshold(gamma: float) -> ConfidenceThreshold:
    r"""Top probabilities at which the focal calibration map surely raises, or does not raise, confidence.

    The map multiplies class i by :math:`1 / g(q_i)` and normalises, :math:`\rho_i \propto q_i / g(q_i)` with
    :math:`g(q) = (1-q)^\gamma (1 - \gamma\, q \log q / (1-q))`, so the top probability t rises exactly if

    .. math:: \sum_i q_i / g(q_i) < 1 / g(t) ,

    that is, if the mean of :math:`1/g` is below its value at the top. For :math:`\gamma > 0` g starts at
    :math:`g(0) = 1`, rises to one maximum and falls to 0; with :math:`p_0` the root of :math:`g = 1`:

    * :math:`t \ge p_0`: **raised** (unless t = 1). For no :math:`q \le t` is g below :math:`g(t) \le 1`: up
      to :math:`p_0` it is at least 1, from there on it falls. So :math:`1/g` is largest at the top, and the
      mean is lower because the others do not all reach it.
    * :math:`t \le \arg\max g`: **not raised**. There g rises, so :math:`1/g` is smallest at the top and the
      mean at least that; equal only for equal probabilities, the uniform distribution.
    * In between it depends on the others: many small ones have :math:`g \approx 1 < g(t)` and the top falls;
      others nearer to the maximum of g raise it. With enough classes some distribution is lowered at every
      :math:`t < p_0`; :func:`calibrant_lab.theory.confidence_region` says where, for a number of classes.

    So the published proposition (raised for every :math:`\gamma > 0`) holds for two classes, where
    :math:`t \ge 1/2 > p_0`, and wherever :math:`t \ge p_0`, but not in general from four classes on. For
    :math:`-1 < \gamma < 0` g falls first and then rises, and the same argument gives the same with *lowered*
    for *raised*. The risk minimiser of focal loss is the inverse map: where the map lowers, the minimiser is
    over-confident.

    Args:
        gamma: Focal loss's exponent, greater than -1; at 0 the map changes nothing, and the limits of the two
            thresholds are given.

    Returns:
        Both thresholds, to rounding. :math:`p_0` is where :func:`calibrant.losses.optimal_gamma` is
        ``gamma``; the maximum of g is the smallest root of :math:`-(1 - \gamma p) \log p = 2 (1 - p)`.

    Raises:
        InputError: If ``gamma`` is not greater than -1.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", 2024, proposition 5.

    Example:
        >>> found = confidence_threshold(1)
        >>> round(found.above, 4), round(found.below, 4)  # 1 / e and 1 / e ** 2
        (0.3679, 0.1353)
        >>> uneven = torch.tensor([[0.2] + [0.8 / 99] * 99], dtype=torch.float64)
        >>> round(focal_map_logits(uneven.log(), 1).exp().max().item(), 4)  # 0.2 is lowered
        0.1868
    """
    return ConfidenceThreshold(
        above=gradient_threshold(gamma=gamma),
        below=gradient_turning_point(gamma=gamma).probability,
        gamma=float(gamma),
    )


def confidence_change(logits: ArrayLike, *, gamma: float) -> ConfidenceChange:
    """Frequency and size of the focal calibration map's changes of the top probability.

    Args:
        logits: Shape ``(N, C)``, or log-odds ``(N,)``.
        gamma: Exponent, greater than -1.

    Returns:
        Shares of the samples, and changes of the probability.

    Raises:
        InputError: If a logit is not finite or ``gamma`` is not greater than -1.

    Note:
        Computed in float64 from log-probabilities; a change within rounding counts as none. O(N C).

    Example:
        >>> probs = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.3237, 0.3233, 0.3226, 0.0304]])
        >>> found = confidence_change(probs.log(), gamma=0.3)
        >>> found.raised, found.lowered
        (0.5, 0.5)
    """
    checked = check_logits(logits, allow_minus_inf=True)
    scores = checked.scores.double()
    if checked.task == "binary":
        rows = torch.stack([-scores.abs(), scores.abs()], dim=1) / 2
        mapped = torch.stack([torch.zeros_like(scores), focal_map_log_odds(scores.abs(), gamma)], dim=1)
        before, after = log_softmax(rows).amax(1), log_softmax(mapped).amax(1)
    else:
        before, after = log_softmax(scores).amax(1), focal_map_logits(scores, gamma).amax(1)
    # Also relative to the log-probability: near certainty, real changes are below 1e-15.
    slack = 8 * _ROUNDING * before.abs().clamp(max=1)
    change = after.exp() - before.exp()
    return ConfidenceChange(
        raised=float((after > before + slack).double().mean()),
        lowered=float((after < before - slack).double().mean()),
        mean_change=float(change.mean()),
        largest_fall=max(0.0, -float(change.min())),
        num_samples=len(change),
    )
