"""Calibration slope and intercept: the straight line on the log-odds that would calibrate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_choice, check_level
from calibrant._math.errors import InputError
from calibrant._math.newton import Expansion, Matrix, Vector, minimise_in_box
from calibrant._math.scores import FLOOR
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import one_event

__all__ = ["CalibrationSlope", "SlopeEstimate", "calibration_slope"]

Interval: TypeAlias = Literal["wald", "profile"]

ALIKE = "undefined: all outcomes are alike"
NO_SPREAD = "undefined: all probabilities are alike"
SEPARATED = "infinite: the probabilities separate the outcomes"

LEAST_EFFECTIVE = 10.0
"""With a smaller effective size of weighted samples an interval means nothing."""
_TOLERANCE = 1e-13  # of derivatives
_MOST_LEVERAGE = 0.999
_FAR = 1e6  # search limit for the bounds of an interval


@dataclass(frozen=True)
class SlopeEstimate:
    """A number with its interval; ``reason`` explains a missing one."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class CalibrationSlope:
    """Result of :func:`calibration_slope`: slope and intercept, and the intercept at slope 1."""

    slope: SlopeEstimate
    intercept: SlopeEstimate
    in_the_large: SlopeEstimate


@suggesting()
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
    1 says that probabilities are too extreme (overconfident), above 1 too timid. ``in_the_large`` is the
    intercept where the slope is held at 1: below 0 the probabilities are too high on the whole, above 0 too
    low. An event ``(N,)``: itself; classes ``(N, C)``: the top label being right, p its probability.

    Args:
        probs: Probabilities of an event ``(N,)`` or of classes ``(N, C)``.
        labels: Outcomes in {0, 1}, or classes, shape ``(N,)``.
        interval: ``"wald"``, from the Fisher information, or ``"profile"`` (without weights only), where the
            likelihood has fallen by its chi-squared quantile. With weights, Wald uses the sandwich: the
            larger of HC3 and what the fitted probabilities expect, with Student's quantile by their effective
            size (none below 10).
        level: Level of the intervals.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Three estimates; ``value`` is ``None``, with the ``reason``, if none exists: all outcomes equal (no
        intercept), all probabilities equal (no slope), or probabilities that separate the outcomes (an
        infinite slope). A bound of a profile interval may be infinite.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, an option does not exist,
            profiles have weights, or samples have several labels (pass one column).

    Note: Probabilities closer to 0 or 1 than 1e-12 count as this close, as log-odds would be infinite; a few
        wrong certainties lower the slope much. A slope of 1 and an intercept of 0 do not exclude errors that
        no line corrects. O(N) time per step of Newton's method. Not differentiable.

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


@dataclass(frozen=True)
class Sample:
    """Log-odds ``(N,)``, outcomes 0 or 1, and shares of the weight; without rows of weight zero."""

    log_odds: Vector
    outcomes: Vector
    shares: Vector

    @classmethod
    def of(cls, scores: Vector, outcomes: Vector, weights: Vector | None = None) -> Sample:
        """Sample from probabilities ``(N,)``."""
        if weights is None:
            shares = np.full(len(scores), 1 / len(scores))
        else:
            scores, outcomes, shares = (values[weights > 0] for values in (scores, outcomes, weights))
            shares = shares / shares.sum()
        p = np.clip(scores, FLOOR, 1 - FLOOR)
        return cls(np.log(p) - np.log1p(-p), outcomes, shares)

    def why_undefined(self, *, slope: bool) -> str | None:
        """Reason for a missing estimate: of the slope, or of the intercept at a given slope."""
        low, high = self.log_odds[self.outcomes == 0], self.log_odds[self.outcomes == 1]
        if not (len(low) and len(high)):
            return ALIKE
        if not slope:
            return None
        if self.log_odds.min() == self.log_odds.max():
            return NO_SPREAD
        return SEPARATED if low.max() <= high.min() or high.max() <= low.min() else None


@dataclass(frozen=True)
class LogisticFit:
    """Estimate, if one exists, and the parts of its uncertainty."""

    parameters: Vector  # free ones: intercept, and slope unless given
    loss: float  # mean log loss in nats
    influence: Matrix  # (N, parameters) of each row on each
    information: Matrix  # per unit of weight
    columns: Matrix  # (N, parameters) of the design
    fitted: Vector  # (N,) probabilities

    def weighted_influence(self, shares: Vector) -> Matrix:
        """Influences of rows with weights: those on a line fitted without the row (HC3).

        They are enlarged where their sum of squares is below its expectation. Where a few rows of large
        weight decide, their outcomes seldom show how much they vary.
        """
        variance = self.fitted * (1 - self.fitted)
        spread = self.columns @ np.linalg.pinv(self.information)
        leverage = shares * variance * (spread * self.columns).sum(axis=1)
        held_out = self.influence / (1 - np.minimum(leverage, _MOST_LEVERAGE))[:, None]
        squared = shares**2
        expected, found = squared @ (spread**2 * variance[:, None]), squared @ held_out**2
        return held_out * np.sqrt(np.maximum(expected / found, 1))

    def covariance(self, shares: Vector | None = None, clusters: NDArray[np.int64] | None = None) -> Matrix:
        """Covariance of the parameters: by the information, or the influences of rows or of clusters."""
        if shares is None:
            return np.linalg.inv(self.information) / len(self.influence)
        if clusters is not None:
            moved = (self.influence * shares[:, None]).T
            totals = np.stack([np.bincount(clusters, column) for column in moved])
            number = len(np.unique(clusters))
            return totals @ totals.T * number / (number - 1)
        spread = self.weighted_influence(shares) * shares[:, None]
        return spread.T @ spread


def fit(sample: Sample, *, slope: float | None = None, intercept: float | None = None) -> LogisticFit:
    """Least mean log loss over intercept and slope, of which one may be given; by Newton's method."""
    free = [k for k, given in enumerate((intercept, slope)) if given is None]
    start = np.array([0.0 if intercept is None else intercept, 1.0 if slope is None else slope])
    design = np.stack([np.ones_like(sample.log_odds), sample.log_odds], axis=1)
    return logistic(design, sample.outcomes, sample.shares, start, free)


def logistic(design: Matrix, outcomes: Vector, shares: Vector, start: Vector, free: list[int]) -> LogisticFit:
    """Least mean log loss over the ``free`` parameters of a design ``(N, k)``; others stay at ``start``."""
    from calibrant._math.table_kernels import logistic_expansion  # compiled

    columns = design if len(free) == design.shape[1] else design[:, free]

    def expansion(free_part: Vector) -> Expansion:
        place = start.copy()
        place[free] = free_part
        value, gradient, hessian = logistic_expansion(design, outcomes, shares, place)
        return Expansion(value, gradient[free], hessian[free][:, free])

    if not free:
        return LogisticFit(
            start[:0], expansion(start[:0]).value, columns, np.empty((0, 0)), columns, outcomes
        )
    unbounded = np.full(len(free), math.inf)
    found = minimise_in_box(
        expansion, start[free], -unbounded, unbounded, tolerance=_TOLERANCE, longest_step=math.inf
    )
    place = start.copy()
    place[free] = found.point
    fitted = 0.5 * (1 + np.tanh(design @ place / 2))
    influence = columns @ np.linalg.pinv(found.hessian)
    influence *= (outcomes - fitted)[:, None]
    return LogisticFit(found.point, found.value, influence, found.hessian, columns, fitted)


def reach_of(effective: float, level: float) -> float:
    """Half width of an interval in standard errors: Student's quantile for the effective size minus two."""
    from scipy.special import stdtrit

    return float(stdtrit(max(1.0, effective - 2), (1 + level) / 2))


def profile_bounds(
    loss_at: Callable[[float], float], best: float, quantile: float, num_samples: int
) -> tuple[float, float]:
    """Bounds where twice the loss of log-likelihood reaches a quantile of the chi-squared law."""
    from scipy.optimize import brentq

    find: Any = brentq  # its stubs do not distinguish its forms
    least = loss_at(best)

    def excess(value: float) -> float:
        return 2 * num_samples * (loss_at(value) - least) - quantile

    def root(side: int) -> float:
        step, inner = 0.1, best
        while excess(best + side * step) < 0:
            inner = best + side * step
            step *= 2
            if step > _FAR:
                return side * math.inf
        return float(find(excess, inner, best + side * step, xtol=1e-10, rtol=1e-12))

    return root(-1), root(1)
