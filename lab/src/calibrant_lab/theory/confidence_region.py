"""At which top probabilities the focal calibration map can raise and can lower confidence, for K classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from calibrant._math.checks import check_at_least
from calibrant._math.errors import InputError
from calibrant._math.focal_map import check_gamma
from calibrant._math.shapes import Float
from calibrant.theory.bracket import bracket
from calibrant.theory.confidence import confidence_threshold

__all__ = ["ConfidenceRegion", "confidence_region"]

_TOPS = 80  # top probabilities looked at before bisecting
_SHARES = 4
_LAST_SHARES = 25
_SMALL_COUNTS = 40  # from here on not every number of equal classes is tried
_ROUNDING = 1e-14


@dataclass(frozen=True, kw_only=True)
class ConfidenceRegion:
    """For one number of classes, where the other classes decide."""

    gamma: float
    num_classes: int
    lowered_below: float
    """The largest top probability that is lowered in some distribution; 1 / num_classes if none is."""
    raised_above: float
    """The smallest top probability that is raised in some distribution; 1 / num_classes: all but that."""


def confidence_region(gamma: float, num_classes: int) -> ConfidenceRegion:
    r"""Top probabilities at which some distribution over K classes is lowered, and at which some is raised.

    The top probability t falls exactly if :math:`\sum_i d_t(q_i) > 0` over the other classes, with
    :math:`d_t(q) = q \, (1/g(q) - 1/g(t))` (see :func:`confidence_threshold`). The largest and the
    smallest such sum under :math:`0 \le q_i \le t`, :math:`\sum_i q_i = 1 - t` are searched among
    distributions with some classes at t, some at zero, some at one common value and at most one at another
    value. Where :math:`d_t` bends at most once the extremes have this form. Having more classes only adds
    room, so ``lowered_below`` rises with K, towards the root of g = 1, and ``raised_above`` falls, not below
    the maximum of g.

    Args:
        gamma: Focal loss's exponent, above 0.
        num_classes: K, at least 2.

    Returns:
        Both bounds, to 1e-6 or better.

    Raises:
        InputError: If ``gamma`` is not above 0, or there are fewer than two classes.

    Note:
        For two and three classes nothing is ever lowered; from four on something is. The proof for two is
        in :func:`confidence_threshold`, that of three is this search.

    Example:
        >>> confidence_region(0.3, 3).lowered_below == 1 / 3  # never
        True
        >>> round(confidence_region(1, 100).lowered_below, 3)  # the root of g = 1 is 0.368
        0.353
    """
    check_gamma(gamma)
    if gamma <= 0:
        raise InputError(f"`gamma` must be above 0; got {gamma}.")
    check_at_least("num_classes", num_classes, 2)
    threshold = confidence_threshold(gamma)
    lowest = 1 / num_classes
    if lowest >= threshold.above:
        return ConfidenceRegion(
            gamma=float(gamma), num_classes=num_classes, lowered_below=lowest, raised_above=lowest
        )
    start = max(lowest, threshold.below)  # up to the maximum of g nothing is raised
    tops = _tops(start, threshold.above)
    extremes = np.array([_extremes(float(t), gamma, num_classes) for t in tops])
    lowered, raised = extremes[:, 1] > _ROUNDING, extremes[:, 0] < -_ROUNDING
    lowered_below = lowest
    if lowered.any():
        last = int(np.flatnonzero(lowered)[-1])
        high = threshold.above if last + 1 == len(tops) else float(tops[last + 1])
        lowered_below = _ceases(
            lambda t: _extremes(t, gamma, num_classes)[1] > _ROUNDING, float(tops[last]), high
        )
    raised_above = threshold.above
    if raised.any():
        first = int(np.flatnonzero(raised)[0])
        low = start if first == 0 else float(tops[first - 1])
        raised_above = _ceases(
            lambda t: _extremes(t, gamma, num_classes)[0] >= -_ROUNDING, low, float(tops[first])
        )
        raised_above = lowest if first == 0 and raised_above < lowest * (1 + 1e-5) else raised_above
    return ConfidenceRegion(
        gamma=float(gamma), num_classes=num_classes, lowered_below=lowered_below, raised_above=raised_above
    )


def _tops(low: float, high: float) -> Float[ndarray, " M"]:
    """Top probabilities to look at: even ones, and close ones beside the largest 1 / n."""
    shares = 1 / np.arange(math.ceil(1 / high), math.floor(1 / low) + 1)[:_SHARES]
    close = np.array([1e-7, 1e-5, 1e-4, 1e-3, 1e-2])
    near = shares[:, None] * np.concatenate([1 - close, 1 + close])
    tops = np.unique(np.concatenate([np.linspace(low, high, _TOPS + 1), near.ravel()]))
    return tops[(tops > low) & (tops <= high)]


def _extremes(top: float, gamma: float, num_classes: int) -> tuple[float, float]:
    """The least and the greatest sum of d over the other classes."""
    others = num_classes - 1
    least, greatest = math.inf, -math.inf
    for at_top in range(min(others - 1, int((1 - top) / top)) + 1):
        room, rest = others - at_top, 1 - top - at_top * top
        if rest <= 0 or room * top < rest:
            continue
        counts = _counts(room)[:, None]  # classes at the common value, beside the one at its own
        own = np.linspace(0, min(top, rest), _LAST_SHARES)
        common = (rest - own) / counts
        sums = counts * _d(common, top, gamma) + np.where(counts < room, _d(own, top, gamma), 0)
        allowed = (common <= top * (1 + 1e-12)) & ((counts < room) | (own == 0))
        if allowed.any():
            least, greatest = min(least, sums[allowed].min()), max(greatest, sums[allowed].max())
    return float(least), float(greatest)


def _counts(room: int) -> Float[ndarray, " M"]:
    """Numbers of classes: all small ones, fewer and fewer large ones, and the largest two."""
    small = np.arange(1, min(room, _SMALL_COUNTS) + 1)
    large = np.geomspace(_SMALL_COUNTS, room, 40).astype(int) if room > _SMALL_COUNTS else small
    return np.unique(np.concatenate([small, large, [max(room - 1, 1), room]])).astype(np.float64)


def _d(probs: Float[ndarray, "*M"], top: float, gamma: float) -> Float[ndarray, "*M"]:
    return probs * (1 / _factor(probs, gamma) - 1 / _factor(np.array(top), gamma))


def _factor(probs: Float[ndarray, "*M"], gamma: float) -> Float[ndarray, "*M"]:
    """g, for probabilities up to the root of g = 1."""
    log_probs = np.log(np.maximum(probs, 1e-300))
    return np.exp(gamma * np.log1p(-probs)) * (1 - gamma * probs * log_probs / (1 - probs))


def _ceases(holds: Callable[[float], bool], low: float, high: float) -> float:
    return sum(bracket(holds, low, high, width=1e-9)) / 2
