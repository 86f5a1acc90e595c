"""Intervals from resampled values, and p-values of several tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant.evaluation.result import Intervals

Bounds = tuple[float, float]
INTERVALS: tuple[Intervals, ...] = ("inverted", "centred", "percentile", "bca")
_NORMAL = NormalDist()
Vector: TypeAlias = NDArray[np.float64]
TOLERABLE_GAP = 0.05  # if a larger one cannot be excluded, nothing is decided


def resampled_interval(
    kind: Intervals, value: float, replicates: Vector, deleted: Vector | None, level: float, bounds: Bounds
) -> Bounds | None:
    """The interval of the chosen kind; ``deleted`` are the values without single rows, for BCa.

    Undefined replicates (a mean over none) are left out; ``None`` if fewer than two are defined.
    ``"percentile"`` takes the replicates unchanged. ``"centred"`` moves them to centre on the value, and so
    does ``"inverted"``, for quantities that have no test to invert.

    Resampling inflates calibration errors about as much as sampling did, so plain percentiles are too high.
    For a true error of 0.021 and 2000 samples they cover 55%, moved ones 88%. Replicates of a mean are
    centred anyway, and this is the plain percentile interval.
    """
    defined = replicates[~np.isnan(replicates)]
    if len(defined) < 2:
        return None
    tail = (1 - level) / 2
    shares = _bca_shares(value, defined, deleted, level) if kind == "bca" else (tail, 1 - tail)
    if shares is None:
        return None
    low, high = np.quantile(defined, shares) + (
        0.0 if kind in {"percentile", "bca"} else value - defined.mean()
    )
    return max(bounds[0], float(low)), min(bounds[1], float(high))


def centred_interval(value: float, replicates: Vector, level: float, bounds: Bounds) -> Bounds | None:
    """Percentile interval of replicates moved to centre on the value; see `resampled_interval`."""
    return resampled_interval("centred", value, replicates, None, level, bounds)


def _bca_shares(value: float, replicates: Vector, deleted: Vector | None, level: float) -> Bounds | None:
    r"""Bias-corrected and accelerated percentiles.

    The percentiles at :math:`\Phi(z_0 + (z_0 + z) / (1 - a (z_0 + z)))`: :math:`z_0` is the normal quantile
    of the share of replicates below the value (of those equal to it half), and the acceleration a the
    skewness of single rows' effects, :math:`\sum d^3 / 6 (\sum d^2)^{3/2}`, with d the mean of
    ``deleted`` less each.

    ``None`` if all replicates lie on one side of the value, as for a nearly calibrated model's calibration
    error.

    References:
        Efron, "Better Bootstrap Confidence Intervals", Journal of the American Statistical Association 82,
        1987.
    """
    below = (float((replicates < value).sum()) + float((replicates == value).sum()) / 2) / len(replicates)
    if not 0 < below < 1:
        return None
    centre, acceleration = _NORMAL.inv_cdf(below), _acceleration(deleted)
    places = [centre + _NORMAL.inv_cdf(tail) for tail in ((1 - level) / 2, (1 + level) / 2)]
    if any(acceleration * place >= 1 for place in places):  # beyond the reach of the expansion
        return None
    low, high = (_NORMAL.cdf(centre + place / (1 - acceleration * place)) for place in places)
    return low, high


def _acceleration(deleted: Vector | None) -> float:
    """One sixth of the skewness of the estimate."""
    if deleted is None:
        return 0.0
    defined = deleted[~np.isnan(deleted)]
    deviations = defined.mean() - defined if len(defined) else defined
    squares = float((deviations**2).sum())
    return float((deviations**3).sum()) / (6 * squares**1.5) if squares > 0 else 0.0


def normal_interval(value: float, standard_error: float, level: float, bounds: Bounds) -> Bounds:
    reach = normal_quantile(level) * standard_error
    return max(bounds[0], value - reach), min(bounds[1], value + reach)


def wilson_interval(share: float, num_samples: float, level: float) -> Bounds:
    """Wilson's score interval of a share; with weights, ``num_samples`` is their effective number.

    Example:
        >>> low, high = wilson_interval(1.0, 10, 0.95)
        >>> round(low, 3), high
        (0.722, 1.0)
    """
    z = normal_quantile(level)
    shrink = 1 + z * z / num_samples
    centre = (share + z * z / (2 * num_samples)) / shrink
    reach = (
        z / shrink * math.sqrt(share * (1 - share) / num_samples + z * z / (4 * num_samples * num_samples))
    )
    return max(0.0, centre - reach), min(1.0, centre + reach)


def share_interval_at_end(share: float, num_samples: float, level: float) -> Bounds:
    """Clopper and Pearson's interval of a share of 0 or 1, if resamples are all equal.

    With weights, ``num_samples`` is their effective number.

    References:
        Clopper and Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the
        Binomial", Biometrika 26, 1934.

    Example:
        >>> [round(end, 3) for end in share_interval_at_end(1.0, 3, 0.95)]
        [0.292, 1.0]
    """
    reach = ((1 - level) / 2) ** (1 / num_samples)
    return (reach, 1.0) if share > 0.5 else (0.0, 1 - reach)


def highest_share(share: float, num_samples: float, confidence: float) -> float:
    """Clopper and Pearson's upper bound of a share, with this confidence.

    Example:
        >>> round(highest_share(1 / 3, 3, 0.95), 3), highest_share(1.0, 3, 0.95)
        (0.865, 1.0)
    """
    from scipy.special import betaincinv

    hits = min(share, 1.0) * num_samples
    return 1.0 if num_samples - hits < 1e-9 else float(betaincinv(hits + 1, num_samples - hits, confidence))


def too_few(num_samples: float, level: float) -> bool:
    """True if noise explains a change with one sign in all samples (probability :math:`2^{1-n}`)."""
    return 2.0 ** (1 - num_samples) > round(1 - level, 12)


def normal_quantile(level: float) -> float:
    """Half-width, in standard deviations, of the central interval of a normal distribution."""
    return NormalDist().inv_cdf((1 + level) / 2)


def effective_number(weights: Vector) -> float:
    """Number of equally weighted samples whose mean would be as precise."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def significance(level: float, num_tests: int) -> float:
    """Bound below which the smallest of ``num_tests`` p-values is significant."""
    return round(1 - level, 12) / num_tests  # 1 - 0.95 is not quite 0.05


def beyond_chance(p_value: float, level: float) -> bool:
    """True if an error is real: the one rule of verdict, gate, groups and intervals that exclude zero."""
    return p_value < significance(level, 1)


def draws_for(level: float) -> int:
    """Number of draws of which on average two are beyond each end of an interval."""
    return math.ceil(round(4 / (1 - level), 6))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number.

    Example:
        >>> [round(p, 3) for p in holm([0.01, 0.5, 0.02])]
        [0.03, 0.5, 0.04]

    References:
        Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6,
        1979.
    """
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted
