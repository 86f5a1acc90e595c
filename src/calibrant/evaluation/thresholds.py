"""Thresholds: significant p-values, tolerable gaps, and very many classes."""

from __future__ import annotations

import math
from collections.abc import Sequence

WIDE = 10_000  # classes; of more, none is ranked or drawn, and few are listed
TOLERABLE_GAP = 0.05  # if a larger one cannot be excluded, nothing is decided

FEW_SAMPLES = 30  # a verdict on fewer says so in its first words


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
