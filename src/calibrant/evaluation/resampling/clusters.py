r"""Noise of samples in clusters: pixels of an image, visits of a patient, tokens of a document.

Samples of a cluster depend on each other, so outcomes cannot be drawn one by one. Clusters are independent,
and their noise is known from the residuals themselves. In each draw the residuals of a whole cluster keep or
change their sign (a wild bootstrap with Rademacher signs). Within a cluster, and from bin to bin, residuals
stay together, so the covariance of the bins' sums is cluster-robust. It is the sum over the clusters of the
outer products of their totals.

**Gaps** are taken from the residuals before the signs are drawn, so that the noise under any gaps is that
of a model with these gaps (Cameron, Gelbach and Miller call the null "imposed"). Without gaps it is the noise
under calibration.

**Rare events**: the residuals understate the noise. A bin that expects a third of an event and holds none has
hardly a residual. So noise is never less than that of independent samples; independent draws add the missing
variance of a bin.

References:
    Cameron, Gelbach and Miller, "Bootstrap-Based Improvements for Inference with Clustered Errors", Review of
    Economics and Statistics 90, 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.evaluation.resampling.events import Indices, Matrix, Vector
from calibrant.evaluation.resampling.intervals import effective_number

FEW_CLUSTERS = 20


def indicator(codes: Indices, values: Vector | None = None) -> Any:
    """Sparse ``(N, G)`` membership of clusters, times the values."""
    from scipy.sparse import csr_array

    entries = np.ones(len(codes)) if values is None else values
    return csr_array((entries, (np.arange(len(codes)), codes)), shape=(len(codes), int(codes.max()) + 1))


def signs(rng: np.random.Generator, num_clusters: int, num_draws: int) -> Matrix:
    drawn = rng.integers(0, 2, (num_clusters, num_draws), dtype=np.int8)
    return (2 * drawn - 1).astype(np.float64)


def cluster_totals(values: Vector, codes: Indices) -> Vector:
    return np.bincount(codes, values).astype(np.float64)


@dataclass(frozen=True)
class Clustered:
    """Cluster noise in the entries and bins of `ResidualSums`, divided by the total weight.

    ``masses`` ``(R', E)`` are the entries' masses, summed over the clusters with the signs of each draw. The
    others ``(F,)`` are sums over the clusters, in each bin: of squared residual sums, of those times the
    mass, and of squared masses.
    """

    masses: Matrix
    residual_squares: Vector
    products: Vector
    mass_squares: Vector

    @classmethod
    def of(cls, residuals: Any, masses: Any, drawn: Matrix) -> Clustered:
        """Make it from the sums of each cluster in each bin, sparse ``(F, G)``, and the drawn masses."""

        def total(matrix: Any) -> Vector:
            return np.asarray(matrix.sum(axis=1)).ravel()

        return cls(
            masses=drawn,
            residual_squares=total(residuals.power(2)),
            products=total(residuals.multiply(masses)),
            mass_squares=total(masses.power(2)),
        )

    def taken(self, gaps: Vector, bin_mass: Vector) -> Vector:
        """The part of the gaps ``(F,)`` to take from the residuals: nothing with one cluster, all with many.

        A cluster that is alone in its bin fits the gap by itself, and nothing would be left of its noise.
        """
        shared = np.divide(self.mass_squares, bin_mass**2, out=np.ones_like(bin_mass), where=bin_mass > 0)
        return gaps * np.clip(1 - shared, 0.0, 1.0)

    def bin_errors(self, gaps: Vector, bin_mass: Vector) -> Vector:
        """Cluster-robust standard error of the gap of each bin ``(F,)``."""
        inside, taken = bin_mass > 0, self.taken(gaps, bin_mass)
        squares = self.residual_squares - 2 * taken * self.products + taken**2 * self.mass_squares
        roots = np.sqrt(np.maximum(squares, 0.0))
        return np.divide(roots, bin_mass, out=np.zeros_like(bin_mass), where=inside)


def joined_clusters(parts: Sequence[Clustered]) -> Clustered:
    return Clustered(
        np.concatenate([part.masses for part in parts], axis=1),
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("residual_squares", "products", "mass_squares")
        ),
    )


def mean_and_variance(values: Vector, weights: Vector | None, codes: Indices) -> tuple[float, float]:
    """A weighted mean and its cluster-robust variance."""
    mass = np.ones(len(values)) if weights is None else weights
    mean = float(mass @ values / mass.sum())
    totals = cluster_totals(mass * (values - mean), codes)
    count = len(totals)
    return mean, float(totals @ totals) / float(mass.sum()) ** 2 * count / max(1, count - 1)


def number_of_clusters(weights: Vector | None, codes: Indices) -> float:
    totals = np.bincount(codes) if weights is None else cluster_totals(weights, codes)
    return effective_number(totals.astype(np.float64))


def effective_share_number(
    outcomes: Vector, weights: Vector | None, codes: Indices, numbers: Vector | None = None
) -> float:
    """Number of independent samples that would give a share the same precision.

    It is at most the number of samples (rows, or the sum of ``numbers``); that of clusters if all are equal.
    """
    share, variance = mean_and_variance(outcomes, weights, codes)
    clusters = number_of_clusters(weights, codes)
    if variance <= 0 or not 0 < share < 1:
        return clusters
    most = float(len(outcomes) if numbers is None else numbers.sum())
    return min(max(share * (1 - share) / variance, 1.0), most)


def cluster_note(names: Sequence[str]) -> str:
    _, counts = np.unique(np.asarray(names), return_counts=True)
    sizes = " to ".join(dict.fromkeys(f"{size:,}" for size in (counts.min(), counts.max())))
    plural = "s" if counts.max() > 1 else ""
    said = (
        f"Intervals and p-values treat the {len(counts):,} clusters of {sizes} sample{plural} as the "
        "independent units."
    )
    return said + few_note(len(counts))


def few_note(number: int) -> str:
    """A note if few clusters, images or batches are resampled; else empty.

    Example:
        >>> few_note(4), few_note(20)
        (' 4 are few: below about 20, intervals are still too short.', '')
    """
    if number >= FEW_CLUSTERS:
        return ""
    return f" {number} are few: below about {FEW_CLUSTERS}, intervals are still too short."
