"""Search for a root between signs."""

from __future__ import annotations

from collections.abc import Callable


def bracket(
    holds: Callable[[float], bool], low: float, high: float, *, width: float = 0.0
) -> tuple[float, float]:
    """Bisect to the end of ``holds``, true at the low end: to that width, or to neighbouring floats."""
    while high - low > width and low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
