"""Straight lines through numbers over the exponents, and how far off they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression

from papers.temperature_line.settings import WHOLE


@dataclass(frozen=True, kw_only=True)
class Line:
    """A straight line through numbers over the exponents."""

    intercept: float
    slope: float
    r_squared: float
    distances: tuple[float, ...]
    """From the line, as shares of the numbers themselves."""

    @property
    def deviation(self) -> float:
        """The largest distance."""
        return max(self.distances)

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
    low, high = between
    points = [point for point in zip(gammas, values, strict=True) if low <= point[0] <= high]
    slope, intercept = linear_regression(*zip(*points, strict=True))
    return _judged(points, intercept, slope)


def anchored_line(gammas: Sequence[float], values: Sequence[float]) -> Line:
    """The line through the values at exponents 0 and 1, as the search along the line draws it."""
    first, second = (values[gammas.index(at)] for at in (0.0, 1.0))
    return _judged(list(zip(gammas, values, strict=True)), first, second - first)


def _judged(points: Sequence[tuple[float, float]], intercept: float, slope: float) -> Line:
    rest = [value - (intercept + slope * gamma) for gamma, value in points]
    mean = math.fsum(value for _, value in points) / len(points)
    spread = math.fsum((value - mean) ** 2 for _, value in points)
    return Line(
        intercept=intercept,
        slope=slope,
        r_squared=1 - math.fsum(each**2 for each in rest) / spread if spread > 0 else 1.0,
        distances=tuple(abs(each) / value for each, (_, value) in zip(rest, points, strict=True)),
    )
