"""Power of a gate: the worst model that would pass with this number of samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.evaluation.resampling.at_limit import ErrorModels
from calibrant.evaluation.resampling.null import ROUNDING
from calibrant.evaluation.thresholds import TOLERABLE_GAP

MOST_RIGHT = 5000  # samples; of so many an accuracy is known to a point
LEAST_GREATEST = 0.5  # what always happens, or never, is stated with an error of one half or more
FEW_DRAWS = 400  # of a much worse model: whether half of them fail
TENTHS = tuple(k / 10 for k in range(1, 10))


@dataclass(frozen=True)
class UndetectedError:
    """The value of a much worse model that passes more often than not; ``always`` if it cannot fail."""

    value: float
    always: bool


def much_worse(limit: float, greatest: float) -> float:
    """An error of twice the limit, at least 5 points above it, but halfway to the greatest at most."""
    return min(max(2 * limit, limit + TOLERABLE_GAP), (limit + greatest) / 2)


def _above(num_draws: int, confidence: float) -> int:
    """The largest number of draws at the limit that may exceed a failing error, less one."""
    return math.ceil((1 - confidence) * (1 + num_draws) - ROUNDING) - 2


def undetected(models: ErrorModels, limit: float, *, confidence: float) -> UndetectedError | None:
    """The worst model that the test of :func:`at_limit` would not tell from one at the limit.

    The errors tried are that of :func:`much_worse` and further tenths. What is stated stays; what happens
    moves away from it towards the greatest error. So the answer depends on what was stated, and not on what
    happened. ``None`` if all of these fail in half of the draws.
    """
    num_draws = models.num_draws
    above = _above(num_draws, confidence)
    if models.plenty and above >= 0 and limit < LEAST_GREATEST:
        return None
    greatest = models.greatest
    if above < 0 or greatest <= limit + ROUNDING:
        return UndetectedError(greatest, always=True)
    if models.plenty:
        return None
    at_limit = np.sort(models.furthest(limit, num_draws))
    needed = at_limit[-1 - above]
    if greatest <= needed + ROUNDING:
        return UndetectedError(greatest, always=True)
    found = None
    for wrong in _rungs(limit, greatest):
        if np.mean(models.furthest(wrong, min(num_draws, FEW_DRAWS)) > needed + ROUNDING) >= 0.5:
            break
        found = UndetectedError(wrong, always=False)
    return found


def missed_accuracy(least: float, num_samples: float, *, confidence: float) -> UndetectedError | None:
    """The lowest accuracy that a binomial test would not tell from the least that is allowed."""
    from scipy.special import bdtr

    trials = math.floor(num_samples + ROUNDING)
    hits = np.arange(trials + 1.0)
    failing = int((bdtr(hits, trials, least) <= 1 - confidence).sum())  # as many counts of hits
    if failing == 0:
        return UndetectedError(0.0, always=True)
    if trials >= MOST_RIGHT:
        return None
    found = None
    for wrong in _rungs(1 - least, 1.0):
        if bdtr(failing - 1.0, trials, 1 - wrong) >= 0.5:
            break
        found = UndetectedError(round(1 - wrong, 12), always=False)
    return found


def _rungs(limit: float, greatest: float) -> list[float]:
    """Errors to try, from the smallest."""
    first = much_worse(limit, greatest)
    return [first, *(tenth for tenth in TENTHS if first < tenth < greatest)]
