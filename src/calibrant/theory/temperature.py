"""Between which temperatures the focal calibration map lies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.focal_map import check_gamma, entropy_ratio, entropy_ratio_of_top, focal_map_log_odds
from calibrant._math.shapes import Float

__all__ = ["TemperatureBounds", "temperature_bounds"]

_POINTS = 1001
_BEYOND = 80.0  # log-odds from which on the slope only goes on towards its limit


@dataclass(frozen=True, kw_only=True)
class TemperatureBounds:
    """Temperatures between which the map lies; T divides the logits, so the lower one sharpens more."""

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
    r"""Temperatures between which the focal calibration map lies.

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


def binary_slope(log_odds: Float[Tensor, "*N"], gamma: float) -> Float[Tensor, "*N"]:
    """S(s) / s, the inverse temperature that the binary map equals at each log-odds, zero included."""
    sizes = log_odds.double().abs()
    small = sizes < 1e-6
    safe = torch.where(small, 1.0, sizes)
    return torch.where(small, _slope_at_zero(gamma), focal_map_log_odds(safe, gamma) / safe)


def _slope_at_zero(gamma: float) -> float:
    log_2 = math.log(2)
    return gamma + 1 - gamma * (2 * log_2 - 1) / (1 + gamma * log_2)


def _bounds(
    theory: tuple[float, float], tight: tuple[float, float], max_log_odds: float
) -> TemperatureBounds:
    """Inverse temperatures, in any order, as temperatures."""
    return TemperatureBounds(
        lower=1 / max(theory),
        upper=1 / min(theory),
        tight_lower=1 / max(tight),
        tight_upper=1 / min(tight),
        max_log_odds=max_log_odds,
    )


def _slope_range(gamma: float, max_log_odds: float | None) -> tuple[float, float]:
    """The extremes of S(s) / s."""
    end = _BEYOND if max_log_odds is None else max_log_odds
    ends = [_slope_at_zero(gamma), float(binary_slope(torch.tensor(end), gamma))]
    if max_log_odds is None:
        ends.append(gamma + 1)

    def slopes(points: Tensor) -> Tensor:
        return binary_slope(points, gamma)

    lowest, highest = (sign * _least(lambda x: sign * slopes(x), 0, end) for sign in (1, -1))  # noqa: B023
    return min(lowest, *ends), max(highest, *ends)


def _extreme_slope(gamma: float) -> float:
    """The turning value of d log(q / g(q)) / d log q: its least, for negative ``gamma`` its largest."""
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
    """The least value of a smooth function, by ever finer grids."""
    value = math.inf
    for _ in range(5):
        grid = torch.linspace(low, high, _POINTS, dtype=torch.float64)
        values = function(grid)
        place = int(values.argmin())
        value = min(value, float(values[place]))
        low, high = float(grid[max(place - 1, 0)]), float(grid[min(place + 1, _POINTS - 1)])
    return value
