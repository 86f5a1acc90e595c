"""Straight lines through numbers over the exponents, and how far off they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calibrant.experiments.studies.temperature_line.settings import WHOLE


@dataclass(frozen=True, kw_only=True)
class Line:
    """A straight line through numbers over the exponents."""

    intercept: float
    slope: float
    r_squared: float
    deviation: float
    """The largest distance from the line, as a share of the number itself."""

    @property
    def relative_slope(self) -> float:
        """By how much of its value at exponent 0 the number grows for each 1."""
        return self.slope / self.intercept


def line_of(gammas: Sequence[float], values: Sequence[float], between: tuple[float, float] = WHOLE) -> Line:
    """The line of least squares over some of the exponents.

    Example:
        >>> found = line_of([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], (0.0, 2.0))
        >>> round(found.slope, 6), round(found.r_squared, 6), round(found.deviation, 6)
        (2.0, 1.0, 0.0)
    """
    points = _within(gammas, values, between)
    middle, mean = (math.fsum(each) / len(points) for each in zip(*points, strict=True))
    spread = math.fsum((gamma - middle) ** 2 for gamma, _ in points)
    slope = math.fsum((gamma - middle) * (value - mean) for gamma, value in points) / spread
    return _judged(points, mean - slope * middle, slope)


def anchored_line(gammas: Sequence[float], values: Sequence[float]) -> Line:
    """The line through the values at exponents 0 and 1, as the search along the line draws it."""
    points = _within(gammas, values, WHOLE)
    first, second = (min(points, key=lambda point: abs(point[0] - at))[1] for at in (0.0, 1.0))
    return _judged(points, first, second - first)


def _within(
    gammas: Sequence[float], values: Sequence[float], between: tuple[float, float]
) -> list[tuple[float, float]]:
    low, high = between
    pairs = zip(gammas, values, strict=True)
    return [(gamma, value) for gamma, value in pairs if low - 1e-9 <= gamma <= high + 1e-9]


def _judged(points: Sequence[tuple[float, float]], intercept: float, slope: float) -> Line:
    rest = [value - (intercept + slope * gamma) for gamma, value in points]
    mean = math.fsum(value for _, value in points) / len(points)
    spread = math.fsum((value - mean) ** 2 for _, value in points)
    return Line(
        intercept=intercept,
        slope=slope,
        r_squared=1 - math.fsum(each**2 for each in rest) / spread if spread > 0 else 1.0,
        deviation=max(abs(each) / value for each, (_, value) in zip(rest, points, strict=True)),
    )
