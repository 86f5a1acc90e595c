"""Calibration slope and intercept: what a straight line on the log-odds would mend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_choice, check_level
from calibrant._math.errors import InputError
from calibrant._math.logistic import LEAST_EFFECTIVE, LogisticFit, Sample, fit, profile_bounds, reach_of
from calibrant.metrics._events import one_event

__all__ = ["CalibrationSlope", "SlopeEstimate", "calibration_slope"]

Interval: TypeAlias = Literal["wald", "profile"]


@dataclass(frozen=True)
class SlopeEstimate:
    """A number with its interval; ``reason`` says why there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class CalibrationSlope:
    """The line on the log-odds, and the shift alone."""

    slope: SlopeEstimate
    intercept: SlopeEstimate
    in_the_large: SlopeEstimate


def calibration_slope(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    interval: Interval = "wald",
    level: float = 0.95,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> CalibrationSlope:
    r"""Slope and intercept of the logistic recalibration, and calibration-in-the-large.

    .. math:: \mathrm{logit}\, P(y_i = 1) = a + b \, \mathrm{logit}(p_i)

    ``slope`` b and ``intercept`` a have the greatest likelihood together: 1 and 0 are perfect. A slope below
    1 says that probabilities are too extreme (over-confident), above 1 too timid. ``in_the_large`` is the
    intercept where the slope is held at 1: below 0 the probabilities are too high on the whole, above 0 too
    low. An event ``(N,)``: itself; classes ``(N, C)``: the top label being right, p its probability.

    Args:
        probs: Probabilities of an event ``(N,)`` or of classes ``(N, C)``.
        labels: Outcomes in {0, 1}, or classes, shape ``(N,)``.
        interval: ``"wald"``, from the Fisher information, or with weights from the sandwich of it (the
            larger of HC3 and what the fitted probabilities expect, with Student's quantile by their effective
            size; none if that is below 10); or ``"profile"``, where the
            likelihood has fallen by the quantile of its chi-squared law (without weights only).
        level: Level of the intervals.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Three estimates; ``value`` is ``None``, with the ``reason``, where none exists: all outcomes alike (no
        intercept), all probabilities alike (no slope), or probabilities that separate the outcomes (an
        infinite slope). A bound of a profile interval may be infinite.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, an option does not exist,
            ``level`` is not between 0 and 1, profiles are asked for with weights, or samples have several
            labels (pass one column of each: ``probs[:, k], labels[:, k]``).

    Note:
        Probabilities closer to 0 or 1 than 1e-12 count as this close, as log-odds would be infinite; a few
        wrong certainties lower the slope much. A slope of 1 and an intercept of 0 do not exclude errors that
        no line mends. O(N) time per step of Newton's method. Not differentiable.

    References:
        Cox, "Two Further Applications of a Model for Binary Regression", Biometrika 45, 1958. Van Calster et
        al., "Calibration: the Achilles heel of predictive analytics", BMC Medicine 17, 2019.

    Example:
        >>> import numpy as np
        >>> log_odds = np.linspace(-3, 3, 2000)
        >>> labels = np.random.default_rng(0).random(2000) < 1 / (1 + np.exp(-log_odds / 2))
        >>> found = calibration_slope(1 / (1 + np.exp(-log_odds)), labels)
        >>> found.slope.low < 0.5 < found.slope.high < 1
        True
    """
    check_choice("interval", interval, ("wald", "profile"))
    check_level(level)
    if interval == "profile" and weights is not None:
        raise InputError('`interval` must be "wald" with weights; got "profile".')
    scores, outcomes, mass = one_event(probs, labels, weights, ignore_index)
    sample = Sample.of(scores, outcomes, mass)
    shares = None if mass is None else sample.shares
    effective = len(sample.shares) if shares is None else 1 / float(shares @ shares)
    z = NormalDist().inv_cdf((1 + level) / 2) if shares is None else reach_of(effective, level)
    few = None
    if shares is not None and effective < LEAST_EFFECTIVE:
        few = f"no interval: the weights leave an effective size of {effective:.1f} of {len(shares)}"

    def estimate(found: LogisticFit, place: int, loss_at: Callable[[float], float]) -> SlopeEstimate:
        value = float(found.parameters[place])
        if few:
            return SlopeEstimate(value, reason=few)
        if interval == "profile":
            return SlopeEstimate(value, *profile_bounds(loss_at, value, z * z, len(scores)))
        reach = z * float(np.sqrt(found.covariance(shares)[place, place]))
        return SlopeEstimate(value, value - reach, value + reach)

    why_no_line, why_no_shift = (sample.why_undefined(slope=slope) for slope in (True, False))
    slope = intercept = SlopeEstimate(None, reason=why_no_line)
    in_the_large = SlopeEstimate(None, reason=why_no_shift)
    if why_no_shift is None:
        in_the_large = estimate(fit(sample, slope=1.0), 0, lambda a: fit(sample, intercept=a, slope=1.0).loss)
    if why_no_line is None:
        line = fit(sample)
        intercept = estimate(line, 0, lambda a: fit(sample, intercept=a).loss)
        slope = estimate(line, 1, lambda b: fit(sample, slope=b).loss)
    return CalibrationSlope(slope, intercept, in_the_large)
