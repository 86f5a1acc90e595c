"""Thresholds: which p-values count, and which gaps are tolerable."""

from __future__ import annotations

TOLERABLE_GAP = 0.05  # where a larger one cannot be excluded, nothing is decided


def significance(level: float, num_tests: int) -> float:
    """Below it a p-value counts, where the smallest of several decides."""
    return round(1 - level, 12) / num_tests  # 1 - 0.95 is not quite 0.05
