"""Means over seeds with their 95% intervals, and their text form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over seeds with half the width of its 95% interval (Student's t); one seed has no interval."""

    value: float
    half_width: float | None
    n: int

    @property
    def low(self) -> float:
        return -math.inf if self.half_width is None else self.value - self.half_width

    @property
    def high(self) -> float:
        return math.inf if self.half_width is None else self.value + self.half_width


def mean_of(values: Sequence[float]) -> Mean:
    """Mean and interval of one value per seed.

    Example:
        >>> found = mean_of([1.0, 2.0, 3.0])
        >>> found.value, round(found.half_width, 3)  # 4.303 / sqrt(3)
        (2.0, 2.484)
        >>> mean_of([1.0]).half_width is None
        True
    """
    n = len(values)
    centre = math.fsum(values) / n
    if n == 1:
        return Mean(value=centre, half_width=None, n=1)
    deviation = math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (n - 1))
    return Mean(value=centre, half_width=standard_errors(n) * deviation / math.sqrt(n), n=n)


@cache
def standard_errors(n: int) -> float:
    """Half width of the interval of ``n`` values' mean in standard errors: Student's quantile."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, n - 1))


def plus_minus(mean: Mean | None, digits: int = 3, scale: float = 1.0, *, signed: bool = False) -> str:
    """A mean with half the width of its interval; a dash for None.

    Example:
        >>> plus_minus(Mean(value=0.031, half_width=0.002, n=3), 2, 100)
        '3.10 ± 0.20'
        >>> plus_minus(Mean(value=0.5, half_width=None, n=1), signed=True)
        '+0.500'
        >>> plus_minus(Mean(value=-0.001, half_width=0.2, n=3), 1)
        '0.0 ± 0.2'
    """
    if mean is None:
        return "–"
    half = "" if mean.half_width is None else f" ± {scale * mean.half_width:.{digits}f}"
    return f"{scale * mean.value:{'+' if signed else ''}z.{digits}f}{half}"


def rounded(value: float | None, digits: int = 8) -> float | None:
    """Eight digits, so that rounding twice does not show; None for non-finite values."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")


def side(mean: Mean, below: str, neither: str, above: str) -> str:
    """Word for a difference: its interval is below zero, contains zero, or is above."""
    return below if mean.high < 0 else above if mean.low > 0 else neither
