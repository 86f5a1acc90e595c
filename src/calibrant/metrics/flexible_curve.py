"""Calibration curve of a logistic regression with splines, and its distance from the diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_at_least, check_level
from calibrant._math.drawing import cluster_codes
from calibrant._math.errors import InputError
from calibrant._math.newton import Matrix, Vector
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import one_event
from calibrant.metrics.slope import SEPARATED, Sample, logistic, reach_of

__all__ = ["FlexibleCalibrationCurve", "flexible_calibration_curve"]

KNOTS = {3: (0.1, 0.5, 0.9), 4: (0.05, 0.35, 0.65, 0.95), 5: (0.05, 0.275, 0.5, 0.725, 0.95)}
SHOWN = (0.01, 0.99)  # the positions leave out a hundredth of the samples on either side
_PERFECT = 1e-6  # log loss of a curve that separates the outcomes


@dataclass(frozen=True, kw_only=True)
class FlexibleCalibrationCurve:
    """Actual rate by predicted probability with its band, and mean, median and 90th percentile of the gap."""

    positions: tuple[float, ...]
    actual: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    ici: float
    e50: float
    e90: float


@suggesting()
def flexible_calibration_curve(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_knots: Literal[3, 4, 5] = 5,
    num_points: int = 101,
    weights: ArrayLike | None = None,
    clusters: Sequence[object] | NDArray[Any] | None = None,
    level: float = 0.95,
) -> FlexibleCalibrationCurve:
    r"""Actual rate as a smooth function of the predicted probability, and its distance from the diagonal.

    .. math:: \mathrm{logit}\, P(y_i = 1) = s(\mathrm{logit}\, p_i) , \qquad
        \mathrm{ICI} = \frac{1}{N} \sum_i | \hat P_i - p_i |

    with a restricted cubic spline s, straight beyond its outer knots, fitted by likelihood. E50 and E90 are
    the median and the 90th percentile of the same distances.

    Args:
        probs: Probabilities of an event ``(N,)``, or of classes ``(N, C)``: of the top label being right.
        labels: Outcomes in {0, 1}, or classes, shape ``(N,)``.
        num_knots: Knots of the spline, at Harrell's quantiles of the log-odds; fewer where those are alike.
        num_points: Number of positions, equally spaced between the 1st and 99th percentile of ``probs``.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        clusters: Cluster of each sample, such as the patient, ``(N,)``, for a band of whole clusters;
            by default samples are independent.
        level: Level of the band, for each position alone.

    Returns:
        ``positions`` (predicted), ``actual`` with its band from ``low`` to ``high``, and the distances
        ``ici``, ``e50`` and ``e90``; all in ``[0, 1]``.

    Raises:
        InputError: If a value is out of range, all outcomes or all probabilities are alike, or the
            probabilities separate the outcomes.

    Note:
        Distances are biased upward for few samples. The band is normal on the log-odds, by the information;
        with weights or clusters by a sandwich. O(N) for each step of Newton's method.

    References:
        Austin and Steyerberg, "The Integrated Calibration Index (ICI) and related metrics for quantifying the
        calibration of logistic regression models", Statistics in Medicine 38, 2019. Harrell, "Regression
        Modeling Strategies", 2nd edition, 2015, section 2.4.5.

    Example:
        >>> import numpy as np
        >>> probs = np.random.default_rng(0).uniform(size=5000)
        >>> labels = np.random.default_rng(1).uniform(size=5000) < probs**2  # p - p² is 1/6 on average
        >>> round(flexible_calibration_curve(probs, labels).ici, 1)
        0.2
    """
    if num_knots not in KNOTS:
        raise InputError(f"`num_knots` must be 3, 4 or 5; got {num_knots!r}.")
    check_at_least("num_points", num_points, 2)
    check_level(level)
    scores, outcomes, mass = one_event(probs, labels, weights)
    counts = slice(None) if mass is None else mass > 0
    codes = None if clusters is None else cluster_codes(clusters, len(scores), counts)
    if mass is not None:
        scores, outcomes, mass = (values[counts] for values in (scores, outcomes, mass))
    sample = Sample.of(scores, outcomes, mass)
    if why := sample.why_undefined(slope=True):
        raise InputError(f"a calibration curve is {why}.")
    knots = np.unique(_quantiles(sample.log_odds, sample.shares, KNOTS[num_knots]))
    design = _spline(sample.log_odds, knots)
    start = np.zeros(design.shape[1])
    start[1] = 1.0
    found = logistic(design, outcomes, sample.shares, start, list(range(len(start))))
    if found.loss < _PERFECT:
        raise InputError(f"a calibration curve is {SEPARATED}.")
    if of_rows := mass is not None and codes is None:
        codes = np.arange(len(scores))  # a row of large weight is one sample
    covariance = found.covariance(None if codes is None else sample.shares, codes)
    first, last = _quantiles(scores, sample.shares, SHOWN).tolist()
    positions = np.linspace(first, last, num_points)
    at = _spline(Sample.of(positions, positions).log_odds, knots)
    z = NormalDist().inv_cdf((1 + level) / 2)
    if of_rows:
        z = reach_of(1 / float(sample.shares @ sample.shares), level)
    centre, reach = at @ found.parameters, z * np.sqrt(np.einsum("pk,kl,pl->p", at, covariance, at))
    distances = np.abs(_share(design @ found.parameters) - scores)
    e50, e90 = _quantiles(distances, sample.shares, (0.5, 0.9)).tolist()
    return FlexibleCalibrationCurve(
        positions=tuple(positions.tolist()),
        actual=tuple(_share(centre).tolist()),
        low=tuple(_share(centre - reach).tolist()),
        high=tuple(_share(centre + reach).tolist()),
        ici=float(sample.shares @ distances),
        e50=e50,
        e90=e90,
    )


def _spline(log_odds: Vector, knots: Vector) -> Matrix:
    """Constant, line, and Harrell's restricted cubic terms ``(N, max(2, len(knots)))``."""
    columns = [np.ones_like(log_odds), log_odds]
    for knot in knots[:-2]:
        last, before = knots[-1], knots[-2]
        cubes = [np.maximum(log_odds - each, 0) ** 3 for each in (knot, before, last)]
        parts = (cubes[0] * (last - before), -cubes[1] * (last - knot), cubes[2] * (before - knot))
        columns.append(sum(parts) / ((last - before) * (last - knots[0]) ** 2))
    return np.stack(columns, axis=1)


def _quantiles(values: Vector, shares: Vector, at: Sequence[float]) -> Vector:
    """The smallest values that these shares of the weight do not exceed."""
    order = np.argsort(values)
    reached = np.searchsorted(np.cumsum(shares[order]), np.asarray(at) * (1 - 1e-12))
    return values[order][np.minimum(reached, len(values) - 1)]


def _share(log_odds: Vector) -> Vector:
    return 0.5 * (1 + np.tanh(log_odds / 2))
