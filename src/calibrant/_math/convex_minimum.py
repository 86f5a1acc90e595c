"""The least value of a convex function of one number, by Newton's method between known signs."""

from __future__ import annotations

import math
from collections.abc import Callable

_MAX_STEPS = 100


def convex_minimum(
    slopes: Callable[[float], tuple[float, float]], low: float, high: float, *, start: float = 1.0
) -> float:
    """Where the derivative vanishes on ``[low, high]``, or the end it points to.

    Args:
        slopes: First and second derivative at a point; the first rises.
        low: Left end.
        high: Right end.
        start: Where to begin, between them.

    Example:
        >>> round(convex_minimum(lambda x: (x * x * x - 8, 3 * x * x), 0.01, 100), 12)
        2.0
        >>> convex_minimum(lambda x: (1.0, 0.0), 0.01, 100)
        0.01
    """
    for end, outwards in ((low, 1), (high, -1)):
        if slopes(end)[0] * outwards >= 0:
            return end
    left, right, point = low, high, start
    for _ in range(_MAX_STEPS):
        first, second = slopes(point)
        if first == 0:
            break
        if first > 0:
            right = point
        else:
            left = point
        following = point - first / second if second > 0 else math.inf
        if not left < following < right:
            following = (left + right) / 2
        if abs(following - point) <= 1e-15 * abs(point):
            break
        point = following
    return point
