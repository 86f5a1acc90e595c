r"""How far a Brownian motion strays: the laws of :math:`\sup |B|` and of :math:`\max B - \min B` on [0, 1].

Each has two series: by reflection, which converges fast for large x, and its Poisson dual, fast for small x.
Where they meet five terms of either give full precision.

References:
    Feller, "The Asymptotic Distribution of the Range of Sums of Independent Random Variables", Annals of
    Mathematical Statistics 22, 1951.
"""

from __future__ import annotations

import math

_MEET = 1.8
_TERMS = 12


def excursion_tail(x: float) -> float:
    r""":math:`P(\sup |B| > x)`.

    Example:
        >>> round(excursion_tail(2.241402727), 9)
        0.05
    """
    if x <= 0:
        return 1.0
    if x >= _MEET:
        return sum((-1) ** k * 4 * _normal_tail((2 * k + 1) * x) for k in range(_TERMS))
    odd = (2 * k + 1 for k in range(_TERMS))
    inside = sum((-1) ** (m // 2) / m * math.exp(-((m * math.pi / x) ** 2) / 8) for m in odd)
    return min(1.0, 1 - 4 / math.pi * inside)


def range_tail(x: float) -> float:
    r""":math:`P(\max B - \min B > x)`.

    Example:
        >>> round(range_tail(2.497672161), 9)
        0.05
    """
    if x <= 0:
        return 1.0
    if x >= _MEET:
        return sum((-1) ** (k - 1) * 8 * k * _normal_tail(k * x) for k in range(1, 2 * _TERMS))
    inside = 0.0
    for k in range(_TERMS):
        c = math.pi * (2 * k + 1)
        inside += 8 * (1 / x**2 + 1 / c**2) * math.exp(-((c / x) ** 2) / 2)
    return min(1.0, 1 - inside)


def _normal_tail(x: float) -> float:
    """P(Z > x) of a standard normal Z."""
    return math.erfc(x / math.sqrt(2)) / 2
