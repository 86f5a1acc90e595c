"""Bootstrap draws as counts: how often each row was drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def num_units(num_samples: int, clusters: NDArray[np.int64] | None) -> int:
    return num_samples if clusters is None else int(clusters.max()) + 1


def resampled_counts(
    rng: np.random.Generator, units: int, clusters: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """How often each row is drawn if ``units`` rows, or clusters, are drawn with replacement."""
    found = np.bincount(rng.integers(0, units, size=units), minlength=units)
    return found if clusters is None else found[clusters]
