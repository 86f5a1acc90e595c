"""Clusters of samples, bootstrap resamples as counts of draws per row, and folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.machine import in_threads
from calibrant._math.shapes import Bool, Int, Shaped


def num_units(num_samples: int, clusters: NDArray[np.int64] | None) -> int:
    return num_samples if clusters is None else int(clusters.max()) + 1


def resampled_counts(
    rng: np.random.Generator, units: int, clusters: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Draws of each row if ``units`` rows, or clusters, are drawn with replacement."""
    found = np.bincount(rng.integers(0, units, size=units), minlength=units)
    return found if clusters is None else found[clusters]


def cluster_codes(
    names: Sequence[object] | NDArray[Any],
    num_samples: int | None = None,
    counted: NDArray[np.bool_] | slice = slice(None),
) -> NDArray[np.int64]:
    """Number of each counted sample's cluster, from 0 without gaps; refuses a single cluster."""
    found = np.asarray(names)
    if found.ndim != 1 or len(found) != (len(found) if num_samples is None else num_samples):
        raise InputError(f"`clusters` must have shape ({num_samples},); got {found.shape}.")
    _, codes = np.unique(found[counted], return_inverse=True)
    if codes.max(initial=0) < 1:
        raise InputError(
            "`clusters` must name at least two clusters; got one, which cannot be resampled: leave it out if "
            "the samples are independent."
        )
    return codes.astype(np.int64)


def out_of_fold(
    folds: Int[Tensor, " N"],
    judge: Callable[[Bool[Tensor, " N"]], Shaped[Tensor, "n ..."]],
    *,
    threads: int | None = 1,
) -> Shaped[Tensor, "N ..."]:
    """Result for each sample from a fit to the other folds.

    ``judge`` takes the mask of a fold, fits to the other samples, and returns one row per sample inside.
    ``threads`` is the number of folds processed at once; None for the number of processors.
    """

    def one(fold: int) -> tuple[Tensor, Tensor]:
        inside = folds == fold
        return inside, judge(inside)

    found: Tensor | None = None
    for inside, values in in_threads(one, folds.unique().tolist(), most=threads):
        if found is None:
            found = values.new_empty((len(folds), *values.shape[1:]))
        found[inside] = values
    if found is None:
        raise InputError("`folds` must hold a sample or more; got none.")
    return found
