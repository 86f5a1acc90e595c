"""Clusters of samples, and bootstrap resamples as counts of draws per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._math.errors import InputError


def num_units(num_samples: int, clusters: NDArray[np.int64] | None) -> int:
    return num_samples if clusters is None else int(clusters.max()) + 1


def resampled_counts(
    rng: np.random.Generator, units: int, clusters: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Draws of each row if ``units`` rows, or clusters, are drawn with replacement."""
    found = np.bincount(rng.integers(0, units, size=units), minlength=units)
    return found if clusters is None else found[clusters]


def cluster_codes(
    names: Sequence[object] | NDArray[Any], num_samples: int | None = None
) -> NDArray[np.int64]:
    """Number of each sample's cluster ``(N,)``, from 0 without gaps; refuses a single cluster."""
    found = np.asarray(names)
    if found.ndim != 1 or len(found) != (len(found) if num_samples is None else num_samples):
        raise InputError(f"`clusters` must have shape ({num_samples},); got {found.shape}.")
    _, codes = np.unique(found, return_inverse=True)
    if codes.max(initial=0) < 1:
        raise InputError(
            "`clusters` must name at least two clusters; got one, which cannot be resampled: leave it out if "
            "the samples are independent."
        )
    return codes.astype(np.int64)
