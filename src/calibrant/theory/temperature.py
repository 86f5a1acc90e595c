"""Temperatures that bound the focal calibration map, and the closest one."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from calibrant._math.checks import check_at_least
from calibrant._math.errors import InputError
from calibrant._math.focal_map import (
    check_gamma,
    entropy_ratio,
    entropy_ratio_of_top,
    focal_map_log_odds,
    focal_map_logits,
)
from calibrant._math.shapes import Float

__all__ = ["ClosestTemperature", "TemperatureBounds", "closest_temperature", "temperature_bounds"]

_POINTS = 1001
_BEYOND = 80.0  # log-odds beyond which the slope only approaches its limit
_GOLDEN = (math.sqrt(5) - 1) / 2
_BINARY_POINTS = 8001
_GRID = {3: 121, 4: 41}  # values of each logit
_REFINEMENTS = 4
_WORST = 40  # rows around which the grid is refined
_ELEMENTS = 400_000  # of the table of logits of more classes


@dataclass(frozen=True, kw_only=True)
class TemperatureBounds:
    """Temperatures that bound the map; T divides the logits, so the lower one sharpens more."""

    lower: float
    upper: float
    tight_lower: float
    """The largest T that the map never falls below, over the range asked for."""
    tight_upper: float
    """The smallest T that the map never exceeds, over the range asked for."""
    max_log_odds: float
    """The range; infinite by default."""


def temperature_bounds(
    gamma: float, *, num_classes: int = 2, max_log_odds: float | None = None
) -> TemperatureBounds:
    r"""Temperatures that bound the focal calibration map.

    **Two classes.** In log-odds s the map is an odd function S(s), and :math:`S(s) / s` is the inverse
    temperature that it equals there. For :math:`\gamma \ge 0` and all s

    .. math:: \gamma + 1 - \tfrac12 \log(\gamma + 1) \;\le\; S(s) / s \;\le\; \gamma + 1 ,

    with the inequalities reversed for :math:`-1 < \gamma < 0`. The tight bounds are the extremes of
    :math:`S(s) / s` over :math:`|s| \le` ``max_log_odds``. At s = 0 it is
    :math:`S'(0) = \gamma + 1 - \gamma (2 \log 2 - 1) / (1 + \gamma \log 2)`; it tends to :math:`\gamma + 1`.

    **More classes.** The map is not a temperature, but it stretches the log-ratio of any two classes by a
    bounded factor: for :math:`\gamma \ge 0`

    .. math:: m(\gamma) \;\le\; \frac{\log \rho_i - \log \rho_j}{\log q_i - \log q_j} \;\le\; \gamma + 1 ,
              \qquad m(\gamma) = \min_q \frac{d \log (q / g(q))}{d \log q} .

    Right side: with :math:`R = -q \log q / (1-q)`, :math:`\gamma \log q + \log g(q) = \gamma \log(q (1-q)) +
    \log(1 + \gamma R(q))`. For :math:`q_i > q_j`, :math:`q_i (1-q_i) \ge q_j (1-q_j)` since
    :math:`q_i + q_j \le 1`, and R rises; so that sum is at least as large at :math:`q_i`, which is the claim.
    Left side: the mean value theorem. Both are sharp from three classes on: the right one as
    :math:`q_i \to 1`, the left one as :math:`q_i, q_j` meet where the derivative is least, which is below
    one half. That :math:`m(\gamma) < 1` is the map's drawing together of small probabilities. For
    :math:`-1 < \gamma < 0` all is reversed, with the maximum for the minimum.

    Args:
        gamma: Focal loss's exponent, greater than -1.
        num_classes: Two, or more (all numbers from three on have the same bounds).
        max_log_odds: Range of the tight bounds, for two classes; all log-odds if ``None``.

    Returns:
        The bounds as temperatures T.

    Raises:
        InputError: If ``gamma`` is not greater than -1 or ``max_log_odds`` is not above 0.

    Note:
        The published experiment (:math:`\gamma = 4`: T from 0.206 to 0.218) is that of log-odds up to 10; up
        to 20, the range it names, the lower one is 0.203.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", 2024, proposition 3 (whose introduction prints T for 1/T).

    Example:
        >>> found = temperature_bounds(4, max_log_odds=10)
        >>> [round(t, 4) for t in (found.lower, found.upper, found.tight_lower, found.tight_upper)]
        [0.2, 0.2384, 0.2066, 0.2178]
        >>> round(temperature_bounds(4, num_classes=3).upper, 3)
        1.117
    """
    check_gamma(gamma)
    if num_classes < 2 or num_classes != int(num_classes):
        raise InputError(f"`num_classes` must be a whole number, at least 2; got {num_classes}.")
    if max_log_odds is not None and not max_log_odds > 0:
        raise InputError(f"`max_log_odds` must be above 0; got {max_log_odds}.")
    limit = gamma + 1
    if num_classes > 2:
        if max_log_odds is not None:
            raise InputError("`max_log_odds` must be left out for more than two classes.")
        return _bounds((limit, _extreme_slope(gamma)), (limit, _extreme_slope(gamma)), math.inf)
    theory = (limit, limit - math.log1p(gamma) / 2)
    return _bounds(theory, _slope_range(gamma, max_log_odds), max_log_odds or math.inf)


@dataclass(frozen=True, kw_only=True)
class ClosestTemperature:
    """Best temperature, and its remaining distance from the map."""

    temperature: float
    error: float
    """The largest difference of a probability."""
    gamma: float
    num_classes: int
    max_logit: float
    """Range of the logits; infinite by default for two classes."""


def closest_temperature(
    gamma: float, num_classes: int = 2, *, max_logit: float | None = None
) -> ClosestTemperature:
    r"""Temperature scaling with the smallest worst-case difference from the focal calibration map.

    .. math:: T^* = \operatorname*{arg\,min}_T \max_z \max_i
              | \rho_\gamma(\mathrm{softmax}(z))_i - \mathrm{softmax}(z / T)_i |

    Two classes: over all log-odds, unless ``max_logit`` is given. More: the last logit is 0 and the others
    are in ``[-max_logit, max_logit]`` (as published, 5). Three and four classes are evaluated on a grid,
    refined where the error is largest; more classes on rows of at most three different values, drawn with a
    fixed seed.

    Args:
        gamma: Focal loss's exponent, greater than -1.
        num_classes: K, at least 2.
        max_logit: Range of the logits; of the log-odds for two classes.

    Returns:
        The temperature and the largest error that remains.

    Raises:
        InputError: If ``gamma`` is not greater than -1, or another argument is out of range.

    Note:
        The largest error is a quasi-convex function of 1 / T, so the search finds its one minimum. Two
        classes: to 1e-6; three and four: to 1e-4; from five on to a few per cent, and the error from below.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", 2024, sections 3.2 and 3.3. In its captions, T = 0.36 belongs to three classes and
        gamma = 3, and "gamma = 1, 3: T = 0.81, 0.46" to gamma = 0.5 and 2.

    Example:
        >>> found = closest_temperature(1)
        >>> round(found.temperature, 4), round(found.error, 5)
        (0.5615, 0.00079)
        >>> found = closest_temperature(1, 3)
        >>> round(found.temperature, 3), round(found.error, 3)
        (0.658, 0.035)
    """
    check_gamma(gamma)
    check_at_least("num_classes", num_classes, 2)
    if max_logit is not None and not 0 < max_logit < math.inf:
        raise InputError(f"`max_logit` must be above 0 and finite; got {max_logit}.")
    return _closest_temperature(float(gamma), num_classes, max_logit)


def _slope_at_zero(gamma: float) -> float:
    log_2 = math.log(2)
    return gamma + 1 - gamma * (2 * log_2 - 1) / (1 + gamma * log_2)


def _bounds(
    theory: tuple[float, float], tight: tuple[float, float], max_log_odds: float
) -> TemperatureBounds:
    return TemperatureBounds(
        lower=1 / max(theory),
        upper=1 / min(theory),
        tight_lower=1 / max(tight),
        tight_upper=1 / min(tight),
        max_log_odds=max_log_odds,
    )


def _slope_range(gamma: float, max_log_odds: float | None) -> tuple[float, float]:
    """Extremes of S(s) / s, the inverse temperature equal to the map at log-odds s."""
    at_zero, end = _slope_at_zero(gamma), max_log_odds or _BEYOND

    def slopes(sizes: Tensor, sign: int = 1) -> Tensor:
        small = sizes < 1e-6
        safe = torch.where(small, 1.0, sizes)
        return sign * torch.where(small, at_zero, focal_map_log_odds(safe, gamma) / safe)

    ends = [at_zero, float(slopes(torch.tensor(end, dtype=torch.float64)))]
    if max_log_odds is None:
        ends.append(gamma + 1)
    lowest, highest = _least(slopes, 0, end), -_least(lambda sizes: slopes(sizes, -1), 0, end)
    return min(lowest, *ends), max(highest, *ends)


def _extreme_slope(gamma: float) -> float:
    """Turning value of d log(q / g(q)) / d log q: its least, for negative ``gamma`` its largest."""
    sign = 1 if gamma >= 0 else -1
    return sign * _least(lambda t: sign * _pair_slope(t, gamma), -60, 30)


def _pair_slope(log_odds: Float[Tensor, " N"], gamma: float) -> Float[Tensor, " N"]:
    """Derivative of log(q / g(q)) by log q, at probabilities given by their log-odds."""
    odds = (-log_odds).exp()
    probs = 1 / (1 + odds)
    likely = odds < 1
    ratio = torch.where(
        likely,
        entropy_ratio_of_top(torch.where(likely, odds, 1.0)),
        entropy_ratio(torch.where(likely, 0.5, probs), torch.where(likely, -math.log(2), -odds.log1p())),
    )
    turn = (2 * probs - ratio + gamma * probs * ratio) / (1 + gamma * ratio)
    return 1 + gamma * turn * (1 + odds) / odds


def _least(function: Callable[[Tensor], Tensor], low: float, high: float) -> float:
    value = math.inf
    for _ in range(5):
        grid = torch.linspace(low, high, _POINTS, dtype=torch.float64)
        values = function(grid)
        place = int(values.argmin())
        value = min(value, float(values[place]))
        low, high = float(grid[max(place - 1, 0)]), float(grid[min(place + 1, _POINTS - 1)])
    return value


@functools.lru_cache(maxsize=512)
def _closest_temperature(gamma: float, num_classes: int, max_logit: float | None) -> ClosestTemperature:
    if num_classes == 2:
        reach = min(max_logit or math.inf, 40 / min(1.0, gamma + 1))
        log_odds = torch.from_numpy(np.geomspace(1e-5 * reach, reach, _BINARY_POINTS))
        mapped = focal_map_log_odds(log_odds, gamma).sigmoid()
        return _closest(log_odds, mapped, gamma, 2, max_logit or math.inf, 1e-10)
    reach = 5.0 if max_logit is None else max_logit

    def closest_on(logits: Float[Tensor, "G C"]) -> ClosestTemperature:
        return _closest(logits, focal_map_logits(logits, gamma).exp(), gamma, num_classes, reach, 1e-6)

    logits = _rows(num_classes, reach)
    found = closest_on(logits)
    if num_classes not in _GRID:
        return found
    step = 2 * reach / (_GRID[num_classes] - 1)
    for _ in range(_REFINEMENTS):
        logits = torch.cat([logits, _around_worst(logits, found, step)])
        found = closest_on(logits)
        step /= 4
    return found


def _around_worst(
    logits: Float[Tensor, "G C"], found: ClosestTemperature, step: float
) -> Float[Tensor, "g C"]:
    """Rows within one step of those where the temperature is furthest from the map."""
    mapped = focal_map_logits(logits, found.gamma).exp()
    errors = (mapped - (logits / found.temperature).softmax(1)).abs().amax(1)
    worst = logits[errors.topk(_WORST).indices]
    offsets = torch.linspace(-step, step, 5, dtype=torch.float64)
    free = logits.shape[1] - 1
    moves = torch.cartesian_prod(*[offsets] * free)
    near = (worst[:, None, :free] + moves).reshape(-1, free).clamp(min=-found.max_logit, max=found.max_logit)
    return torch.nn.functional.pad(near, (0, 1))


def _closest(
    scores: Tensor, mapped: Tensor, gamma: float, num_classes: int, max_logit: float, precision: float
) -> ClosestTemperature:
    """Temperature of log-odds, or of logits, with probabilities nearest to the mapped ones."""

    def error(inverse: float) -> float:
        scaled = inverse * scores
        return float((mapped - (scaled.sigmoid() if scores.ndim == 1 else scaled.softmax(1))).abs().max())

    inverse = 1.0 if gamma == 0 else _quasi_convex_minimum(error, 0.0, max(gamma, 0.5) + 2, precision)
    return ClosestTemperature(
        temperature=1 / inverse,
        error=error(inverse),
        gamma=gamma,
        num_classes=num_classes,
        max_logit=max_logit,
    )


def _quasi_convex_minimum(
    function: Callable[[float], float], low: float, high: float, precision: float
) -> float:
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > precision * high:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            at_left = function(left := high - _GOLDEN * (high - low))
        else:
            low, left, at_left = left, right, at_right
            at_right = function(right := low + _GOLDEN * (high - low))
    return (low + high) / 2


def _rows(num_classes: int, reach: float) -> Float[Tensor, "G C"]:
    """Rows of logits to test, the last one 0; the map is symmetric in the others."""
    free = num_classes - 1
    if num_classes in _GRID:
        values = np.linspace(reach, -reach, _GRID[num_classes])
        rows = np.array(list(itertools.combinations_with_replacement(values, free)))
    else:
        rows = _drawn(free, reach)
    return torch.from_numpy(np.pad(rows, ((0, 0), (0, 1))))


def _drawn(free: int, reach: float) -> Float[ndarray, "G c"]:
    """Random rows of three values, often at the ends of the range: few large ones, often."""
    generator = np.random.default_rng(0)
    count = max(1000, _ELEMENTS // free)
    values = (1.5 * reach * (2 * generator.random((count, 3)) - 1)).clip(-reach, reach)
    few = np.exp(generator.random((count, 2)) * math.log(free + 1)).astype(int)
    place = np.arange(free)
    kind = (place >= few[:, :1]).astype(int) + (place >= few.sum(1, keepdims=True))
    return np.take_along_axis(values, kind, axis=1)
