"""Hashes of rows, which tell tables apart and deal their rows out."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant.evaluation.resampling.events import Indices, Vector

Hashes: TypeAlias = NDArray[np.uint64]


def hashed(numbers: Indices) -> Hashes:
    """SplitMix64: whole numbers, however regular, become as good as random ones.

    Example:
        >>> ((hashed(np.arange(8)) >> np.uint64(32)) % np.uint64(10)).tolist()
        [3, 4, 4, 4, 2, 2, 8, 6]
    """
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def fingerprint(rows: Indices, held: Indices | Vector) -> int:
    """Another number if a row holds something else, such as another label; in whatever order they come."""
    bits = held.view(np.uint64) if held.dtype == np.float64 else held.astype(np.uint64)
    mixed = (rows.astype(np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * (2 * bits + 1)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
    return int(np.bitwise_xor.reduce(mixed ^ (mixed >> np.uint64(31)))) if len(rows) else 0
