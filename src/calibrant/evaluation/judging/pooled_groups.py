"""Which groups are judged by themselves, and which together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

FEWEST = 30  # samples, or clusters, of a group that is judged by itself
MOST = 100  # groups that are judged by themselves: the largest


def pooled_names(groups: np.ndarray[Any, Any], clusters: Iterable[object] | None) -> np.ndarray[Any, Any]:
    """The name under which each sample is judged: its group's, or one for all groups that are too small.

    Example:
        >>> names = np.array(["a"] * 40 + ["b"] * 3 + ["c"] * 2)
        >>> np.unique(pooled_names(names, None)).tolist()
        ['a', 'other (2 groups)']
    """
    units = range(len(groups)) if clusters is None else clusters
    sizes = Counter(name for name, _ in set(zip(groups.tolist(), units, strict=True)))
    large, other = large_groups(sizes)
    return np.array([name if name in large else other for name in groups.tolist()], dtype=object)


def large_groups(sizes: Mapping[str, int]) -> tuple[set[str], str]:
    """The groups that are judged by themselves, and what the others are called together."""
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))[:MOST]
    large = {name for name in ranked if sizes[name] >= FEWEST}
    rest = set(sizes) - large
    return large, f"other ({len(rest)} groups)" if len(rest) > 1 else "".join(rest)
